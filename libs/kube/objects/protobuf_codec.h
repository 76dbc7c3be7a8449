// Types of which there is a message, as protobuf.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_CODEC_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_CODEC_H_

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/object_error.h"
#include "libs/kube/objects/protobuf_envelope.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {

// T is a message of libs/kube/objects/proto. Bodies of another type than the resource's are errors.
template <typename T>
class ProtobufCodec final : public Codec<T> {
 public:
  explicit ProtobufCodec(const ResourceType& type)
      : api_version_(ApiVersion(type)), kind_(type.kind), list_kind_(type.kind + "List") {}

  Encoding encoding() const override { return Encoding::kProtobuf; }

  absl::StatusOr<std::shared_ptr<const T>> ParseObject(absl::string_view object) const override {
    auto parsed = std::make_shared<T>();
    CAPSTAN_RETURN_IF_ERROR(ParseInto(object, parsed.get()));
    return parsed;
  }

  absl::Status ParseInto(absl::string_view text, T* object) const override {
    if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
        !object->ParseFromArray(text.data(), static_cast<int>(text.size()))) {
      return ObjectMalformed(absl::StrCat("its message is no ", kind_));
    }
    return absl::OkStatus();
  }

  absl::optional<ObjectNames> FindNames(absl::string_view object) const override {
    return FindProtobufNames(object);
  }

  absl::StatusOr<std::shared_ptr<const T>> ParseBody(absl::string_view body) const override {
    CAPSTAN_ASSIGN_OR_RETURN(const absl::string_view raw, Open(body, kind_));
    return ParseObject(raw);
  }

  absl::StatusOr<EncodedList> SplitList(absl::string_view body) const override {
    CAPSTAN_ASSIGN_OR_RETURN(const absl::string_view raw, Open(body, list_kind_));
    return ParseProtobufList(raw);
  }

  std::string Write(const T& object) const override {
    return WriteProtobufEnvelope(api_version_, kind_, object);
  }

 private:
  absl::StatusOr<absl::string_view> Open(absl::string_view body, const std::string& kind) const {
    CAPSTAN_ASSIGN_OR_RETURN(const ProtobufEnvelope envelope, ParseProtobufEnvelope(body));
    if (envelope.kind != kind || envelope.api_version != api_version_) {
      return ObjectMalformed(
          absl::StrCat("its envelope names another type than ", api_version_, " ", kind));
    }
    return envelope.raw;
  }

  const std::string api_version_;
  const std::string kind_;
  const std::string list_kind_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_CODEC_H_
