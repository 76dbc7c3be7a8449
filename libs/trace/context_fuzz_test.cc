// What strangers send as `traceparent`, in metadata and in the environment.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/trace/context.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::trace::Context;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::optional<Context> context = capstan::trace::Parse(text);
  if (!context.has_value()) return 0;
  if ((context->trace_high | context->trace_low) == 0 || context->span == 0) std::abort();
  // What was read is written and read again the same.
  if (capstan::trace::Parse(capstan::trace::ToTraceparent(*context)) != context) std::abort();
  return 0;
}
