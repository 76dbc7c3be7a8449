#include "libs/kube/objects/scale_codec.h"

#include <utility>

#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/object_error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

constexpr char kApiVersion[] = "autoscaling/v1";
constexpr char kKind[] = "Scale";

}  // namespace

absl::StatusOr<ScaleJsonCodec::Ref> ScaleJsonCodec::ParseObject(absl::string_view object) const {
  CAPSTAN_ASSIGN_OR_RETURN(const JsonHead head, ReadJsonHead(object));
  if (head.api_version != kApiVersion || head.kind != kKind) {
    return ObjectMalformed("it is no autoscaling/v1 Scale");
  }
  auto scale = std::make_shared<autoscaling_v1::Scale>();
  CAPSTAN_RETURN_IF_ERROR(JsonToMessage(object, scale.get()));
  return Ref(std::move(scale));
}

absl::StatusOr<EncodedList> ScaleJsonCodec::SplitList(absl::string_view /*body*/) const {
  return ObjectMalformed("there are no lists of autoscaling/v1 Scale");
}

std::string ScaleJsonCodec::Write(const autoscaling_v1::Scale& object) const {
  // It fails only for times that no server gives; those are not the client's to write.
  absl::StatusOr<std::string> json = MessageToJson(kApiVersion, kKind, object);
  if (json.ok()) return *std::move(json);
  autoscaling_v1::Scale bare;
  *bare.mutable_spec() = object.spec();
  bare.mutable_metadata()->set_name(object.metadata().name());
  bare.mutable_metadata()->set_namespace_(object.metadata().namespace_());
  bare.mutable_metadata()->set_uid(object.metadata().uid());
  bare.mutable_metadata()->set_resource_version(object.metadata().resource_version());
  return MessageToJson(kApiVersion, kKind, bare).value_or("");
}

}  // namespace capstan::kube
