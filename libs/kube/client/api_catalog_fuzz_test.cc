// Any document of a server about itself: it is read as the kind that it names and as no other, and
// what is refused leaves the catalog as it was.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/client/api_catalog.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  capstan::kube::ApiCatalog catalog;
  const auto aggregated = capstan::kube::AddAggregatedDiscovery(text, &catalog);
  Require(catalog.size() == 0 || (aggregated.ok() && *aggregated));
  const auto groups = capstan::kube::ParseGroups(text);
  Require(!groups.ok() || !aggregated.ok() || !*aggregated);
  const bool listed = capstan::kube::AddResourceList(text, {"g", "v"}, &catalog).ok();
  Require(!listed || !catalog.Versions("g").empty());
  (void)capstan::kube::ParseServerVersion(text).ok();
  return 0;
}
