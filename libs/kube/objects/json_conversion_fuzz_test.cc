// Any text, as an object of each kind: what is taken for one survives the way to protobuf and back,
// and so do any bytes that are a message.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/objects/json_conversion.h"

namespace capstan::kube {
namespace {

void CheckMessage(const ObjectConverter& converter, const std::string& api_version,
                  const std::string& kind, absl::string_view message) {
  const auto json = converter.ToJson(api_version, kind, message);
  if (!json.ok()) return;
  const auto again = converter.ToProtobuf(api_version, kind, *json);
  // A Quantity that is empty, or nanoseconds of a Time, are dropped; what is left stays.
  if (!again.ok()) return;
  const auto same = converter.ToJson(api_version, kind, *again);
  fuzzing::Require(same.ok());
  const auto stable = converter.ToProtobuf(api_version, kind, *same);
  fuzzing::Require(stable.ok());
  fuzzing::Require(*converter.ToJson(api_version, kind, *stable) == *same);
}

void Check(fuzzing::FuzzInput input) {
  static const auto* const kinds = new std::vector<std::pair<std::string, std::string>>{
      {"v1", "Pod"},
      {"apps/v1", "Deployment"},
      {"v1", "Node"},
      {"policy/v1", "PodDisruptionBudget"},
      {"v1", "Secret"},
      {"coordination.k8s.io/v1", "Lease"},
      {"v1", "Status"},
      {"v1", "PersistentVolume"},
      {"authentication.k8s.io/v1", "TokenReview"},
      {"events.k8s.io/v1", "Event"}};
  const auto& [api_version, kind] = (*kinds)[input.Below(kinds->size())];
  const absl::string_view text = input.Rest();
  const ObjectConverter& converter = BuiltinConverter();
  CheckMessage(converter, api_version, kind, text);
  const auto message = converter.ToProtobuf(api_version, kind, text);
  if (!message.ok()) return;
  CheckMessage(converter, api_version, kind, *message);
}

}  // namespace
}  // namespace capstan::kube

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::kube::Check(capstan::fuzzing::FuzzInput(data, size));
  return 0;
}
