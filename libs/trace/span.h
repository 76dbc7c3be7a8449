#ifndef CAPSTAN_LIBS_TRACE_SPAN_H_
#define CAPSTAN_LIBS_TRACE_SPAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/variant.h"
#include "libs/trace/context.h"

namespace capstan::trace {

enum class Kind { kInternal, kServer, kClient };

// One fact about a span. Keys are dotted snake_case; those of OpenTelemetry's semantic conventions
// where there is one (`rpc.method`), else `capstan.…`.
struct Attribute {
  std::string key;
  absl::variant<std::string, int64_t, bool> value;

  Attribute(absl::string_view key, absl::string_view text) : key(key), value(std::string(text)) {}
  Attribute(absl::string_view key, const char* text) : Attribute(key, absl::string_view(text)) {}
  Attribute(absl::string_view key, const std::string& text)
      : Attribute(key, absl::string_view(text)) {}
  Attribute(absl::string_view key, int64_t number) : key(key), value(number) {}
  Attribute(absl::string_view key, bool flag) : key(key), value(flag) {}

  friend bool operator==(const Attribute&, const Attribute&) = default;
};

// Something that took time, told of once it is over. Times are of the wall clock of the machine it
// happened on, so that spans of several machines lie as exactly to each other as their clocks do.
struct Span {
  // Its own ids.
  Context context;
  // Id of the parent in the same trace; 0 for the root.
  uint64_t parent = 0;
  std::string name;
  Kind kind = Kind::kInternal;
  absl::Time begin;
  absl::Time end;
  std::vector<Attribute> attributes = {};
  // True if it ended with an error, of which `error` says more; may be empty.
  bool failed = false;
  std::string error = {};
};

// Takes spans. Thread-safe; never blocks, never fails. Spans that are not sampled are not to be
// given to it.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void End(Span span) = 0;
};

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_SPAN_H_
