// Custom resources on the wire.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_JSON_CODEC_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_JSON_CODEC_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/resource_type.h"

namespace capstan::kube {

// Objects of another type than the resource's are errors. Those that say none, as items of lists
// may, are given it.
class JsonCodec final : public Codec<DynamicObject> {
 public:
  explicit JsonCodec(const ResourceType& type);

  Encoding encoding() const override { return Encoding::kJson; }
  absl::StatusOr<std::shared_ptr<const DynamicObject>> ParseObject(
      absl::string_view object) const override;
  absl::StatusOr<std::shared_ptr<const DynamicObject>> ParseBody(
      absl::string_view body) const override;
  absl::StatusOr<EncodedList> SplitList(absl::string_view body) const override;
  // With the type, if the object says none.
  std::string Write(const DynamicObject& object) const override;

 private:
  const std::string api_version_;
  const std::string kind_;
  // `"apiVersion":…,"kind":…`.
  const std::string type_fields_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_JSON_CODEC_H_
