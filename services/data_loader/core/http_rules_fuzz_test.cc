// Whatever a web server says is parsed or refused, and what is accepted leads nowhere else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "services/data_loader/core/http_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace capstan::data_loader;  // NOLINT
  const std::string text(reinterpret_cast<const char*>(data), size);
  const HttpUrl base = *ParseHttpUrl("https://h/data/list.index");
  const auto url = ParseHttpUrl(text);
  if (url.ok() && ParseHttpUrl(url->ToString())->ToString() != url->ToString()) std::abort();
  const auto resolved = ResolveHttpUrl(base, text);
  if (resolved.ok() && resolved->path.find("..") == 0) std::abort();
  const auto range = ParseContentRange(text);
  if (range.has_value() && range->last >= range->total) std::abort();
  Sha256FromHeaders({{"digest", text}, {"repr-digest", text}});
  ParseRetryAfter(text, absl::UnixEpoch());
  IsSpecialAddress(text);
  const auto entries = ParseIndex(base, text);
  if (entries.ok()) {
    for (const IndexEntry& entry : *entries) {
      if (entry.path.empty() || entry.path.front() == '/') std::abort();
    }
  }
  return 0;
}
