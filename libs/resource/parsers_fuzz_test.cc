// Names, quantities, durations, page tokens and etags from outside: whatever the bytes, a parser
// answers with a value that goes round or with an error.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/resource/etag.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/resource/page.h"
#include "libs/resource/quantity.h"

namespace capstan::resource {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

template <typename Name>
void CheckName(absl::string_view text) {
  const auto name = Name::Parse(text);
  if (name.ok()) Require(name->ToString() == std::string(text));
}

void Check(absl::string_view text) {
  CheckName<ProjectName>(text);
  CheckName<JobName>(text);
  CheckName<OutputName>(text);
  CheckName<NodeName>(text);
  CheckName<MaintenanceWindowName>(text);
  CheckName<RoleBindingName>(text);
  CheckName<BundleName>(text);
  CheckName<DatasetVersionName>(text);

  const auto units = ParseQuantity(text);
  if (units.ok()) {
    Require(*units >= 0);
    Require(ParseQuantity(FormatBytes(*units)).value() == *units);
    const auto millis = ParseMilliQuantity(text);
    if (millis.ok()) Require(*millis / 1000 == *units);
  }
  const auto duration = ParseDuration(text);
  if (duration.ok()) Require(*duration >= absl::ZeroDuration());

  const PageTokens tokens("a key of enough bytes");
  // No input is a valid token unless it was sealed with this key.
  const auto position = tokens.Open(text, "arguments");
  if (position.ok() && !text.empty()) {
    Require(tokens.Open(tokens.Seal(*position, "arguments"), "arguments").value() == *position);
  }
  (void)CheckEtag(text, "\"r1\"");
  (void)IsValidUuid4(text);
}

}  // namespace
}  // namespace capstan::resource

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::resource::Check(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
