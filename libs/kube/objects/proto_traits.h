// ObjectTraits of the messages in libs/kube/objects/proto.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_PROTO_TRAITS_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_PROTO_TRAITS_H_

#include <concepts>

#include "absl/strings/string_view.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/proto/meta_v1.pb.h"

namespace capstan::kube {

// Every kind that the server stores, and those that are only asked for.
template <typename T>
concept ProtoObject = requires(const T& object) {
  {
    object.metadata()
  } -> std::same_as<const ::k8s::io::apimachinery::pkg::apis::meta::v1::ObjectMeta&>;
};

template <ProtoObject T>
struct ObjectTraits<T> {
  static absl::string_view Namespace(const T& object) { return object.metadata().namespace_(); }
  static absl::string_view Name(const T& object) { return object.metadata().name(); }
  static absl::string_view Uid(const T& object) { return object.metadata().uid(); }
  static absl::string_view ResourceVersion(const T& object) {
    return object.metadata().resource_version();
  }
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_PROTO_TRAITS_H_
