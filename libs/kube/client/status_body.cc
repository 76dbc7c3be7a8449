#include "libs/kube/client/status_body.h"

#include "absl/strings/match.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/protobuf_envelope.h"

namespace capstan::kube {

bool IsStatusBody(absl::string_view body) {
  if (absl::StartsWith(body, "k8s")) {
    const auto envelope = ParseProtobufEnvelope(body);
    return envelope.ok() && envelope->kind == "Status" && envelope->api_version == "v1";
  }
  const auto head = ReadJsonHead(body);
  return head.ok() && head->kind == "Status" && head->api_version == "v1";
}

}  // namespace capstan::kube
