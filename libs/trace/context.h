// Where in a trace something happens, as W3C Trace Context (https://www.w3.org/TR/trace-context/)
// has it. A value and pure functions of it, for cores too.
#ifndef CAPSTAN_LIBS_TRACE_CONTEXT_H_
#define CAPSTAN_LIBS_TRACE_CONTEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::trace {

// Metadata key and, in upper case, environment variable.
inline constexpr char kTraceparent[] = "traceparent";
inline constexpr char kTraceparentVariable[] = "TRACEPARENT";

// A span of a trace. Neither id is zero in one that Parse or a Tracer made.
struct Context {
  uint64_t trace_high = 0;
  uint64_t trace_low = 0;
  uint64_t span = 0;
  // Whether whoever began the trace wants its spans recorded.
  bool sampled = false;

  friend bool operator==(const Context&, const Context&) = default;
};

// Reads a `traceparent` of any version; absl::nullopt if it is not a valid one. Of later versions
// only what version 00 has is used.
absl::optional<Context> Parse(absl::string_view traceparent);

// The value of `traceparent`, in version 00.
std::string ToTraceparent(const Context& context);
// 32 lower-case hex digits.
std::string TraceIdOf(const Context& context);

// A span in the trace of `parent` whose id follows from `parent`'s trace and `name` alone, so that
// whoever tells of it, at whatever time and after whatever restart, tells of the same span. `name`
// must be unique in the trace: begin it with a uid.
Context Derive(const Context& parent, absl::string_view name);

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_CONTEXT_H_
