#include "libs/trace/context.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/digest/sha256.h"

namespace capstan::trace {
namespace {

// `00-<32 hex>-<16 hex>-<2 hex>`; later versions may have more after it.
constexpr size_t kLength = 55;
constexpr uint64_t kSampled = 1;

// False unless every digit is lower-case hex.
bool ReadHex(absl::string_view digits, uint64_t* value) {
  *value = 0;
  for (const char c : digits) {
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else {
      return false;
    }
    *value = *value << 4 | digit;
  }
  return true;
}

}  // namespace

absl::optional<Context> Parse(absl::string_view traceparent) {
  if (traceparent.size() < kLength) return absl::nullopt;
  if (traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-') {
    return absl::nullopt;
  }
  Context context;
  uint64_t version = 0;
  uint64_t flags = 0;
  if (!ReadHex(traceparent.substr(0, 2), &version) ||
      !ReadHex(traceparent.substr(3, 16), &context.trace_high) ||
      !ReadHex(traceparent.substr(19, 16), &context.trace_low) ||
      !ReadHex(traceparent.substr(36, 16), &context.span) ||
      !ReadHex(traceparent.substr(53, 2), &flags)) {
    return absl::nullopt;
  }
  const bool more = traceparent.size() > kLength;
  if (version == 0xff || (more && (version == 0 || traceparent[kLength] != '-'))) {
    return absl::nullopt;
  }
  if ((context.trace_high | context.trace_low) == 0 || context.span == 0) return absl::nullopt;
  context.sampled = (flags & kSampled) != 0;
  return context;
}

std::string ToTraceparent(const Context& context) {
  return absl::StrFormat("00-%016x%016x-%016x-%02x", context.trace_high, context.trace_low,
                         context.span, context.sampled ? 1 : 0);
}

std::string TraceIdOf(const Context& context) {
  return absl::StrFormat("%016x%016x", context.trace_high, context.trace_low);
}

Context Derive(const Context& parent, absl::string_view name) {
  Context context = parent;
  const std::string hash = Sha256::Of(absl::StrCat(TraceIdOf(parent), "/", name));
  context.span = 0;
  for (size_t i = 0; i < 8; ++i) {
    context.span = context.span << 8 | static_cast<uint8_t>(hash[i]);
  }
  if (context.span == 0) context.span = 1;
  return context;
}

}  // namespace capstan::trace
