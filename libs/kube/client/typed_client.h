// The objects of one resource, by their C++ type.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_TYPED_CLIENT_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_TYPED_CLIENT_H_

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/list_all.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/status_body.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/json_codec.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/proto_traits.h"
#include "libs/kube/objects/protobuf_codec.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/objects/scale_codec.h"

namespace capstan::kube {

// Protobuf for messages, JSON for DynamicObject.
template <typename T>
std::shared_ptr<const Codec<T>> MakeCodec(const ResourceType& type) {
  if constexpr (std::is_same_v<T, DynamicObject>) {
    return std::make_shared<const JsonCodec>(type);
  } else {
    return std::make_shared<const ProtobufCodec<T>>(type);
  }
}

template <typename T>
using DoneWith = absl::AnyInvocable<void(absl::StatusOr<T>)>;
template <typename T>
using ObjectPtr = std::shared_ptr<const T>;

// Starts the call; its 2xx body is an object of `codec`'s.
template <typename T>
std::unique_ptr<PendingCall> StartObject(Client* client, ApiRequest request,
                                         std::shared_ptr<const Codec<T>> codec,
                                         DoneWith<ObjectPtr<T>> done) {
  return client->Start(std::move(request), [codec = std::move(codec), done = std::move(done)](
                                               absl::StatusOr<ApiResponse> response) mutable {
    if (!response.ok()) return done(response.status());
    done(codec->ParseBody(response->body));
  });
}

// As Client: on the strand. `ns` is empty for what has none, and in lists for all namespaces. Where
// a call writes, the answer is the object as the server has it now. A value, cheap to copy; the
// client must outlive the calls' starts.
template <typename T>
class Resource {
 public:
  Resource(Client* client, const ResourceType& type)
      : client_(client), type_(type), codec_(MakeCodec<T>(type)) {}
  Resource(Client* client, const TypedResource<T>& resource) : Resource(client, resource.type()) {}

  const ResourceType& type() const { return type_; }
  const std::shared_ptr<const Codec<T>>& codec() const { return codec_; }
  Client* client() const { return client_; }

  std::unique_ptr<PendingCall> Get(absl::string_view ns, absl::string_view name,
                                   DoneWith<ObjectPtr<T>> done) const {
    return StartObject<T>(client_, GetRequest(type_, ns, name, encoding()), codec_,
                          std::move(done));
  }

  // One page.
  std::unique_ptr<PendingCall> List(absl::string_view ns, const ListOptions& options,
                                    DoneWith<ListPage<T>> done) const {
    return client_->Start(
        ListRequest(type_, ns, options, encoding()),
        [codec = codec_, done = std::move(done)](absl::StatusOr<ApiResponse> response) mutable {
          if (!response.ok()) return done(response.status());
          done(codec->ParseList(response->body));
        });
  }

  // All pages of `options.limit`: ListAllCall.
  std::unique_ptr<PendingCall> ListAll(absl::string_view ns, ListOptions options,
                                       DoneWith<ListPage<T>> done) const {
    return std::make_unique<ListAllCall<T>>(
        std::move(options),
        [self = *this, ns = std::string(ns)](const ListOptions& page, DoneWith<ListPage<T>> next) {
          return self.List(ns, page, std::move(next));
        },
        std::move(done));
  }

  // With metadata.generateName the server makes the name.
  std::unique_ptr<PendingCall> Create(const T& object, const WriteOptions& options,
                                      DoneWith<ObjectPtr<T>> done) const {
    return StartObject<T>(client_,
                          CreateRequest(type_, ObjectTraits<T>::Namespace(object),
                                        codec_->Write(object), options, encoding()),
                          codec_, std::move(done));
  }

  // With a resource version: only that one is replaced, else the error is a conflict. Without:
  // whatever is there. `subresource`: `status`, or "".
  std::unique_ptr<PendingCall> Update(const T& object, const WriteOptions& options,
                                      DoneWith<ObjectPtr<T>> done,
                                      absl::string_view subresource = "") const {
    using Traits = ObjectTraits<T>;
    return StartObject<T>(
        client_,
        UpdateRequest(type_, Traits::Namespace(object), Traits::Name(object), subresource,
                      codec_->Write(object), !Traits::ResourceVersion(object).empty(), options,
                      encoding()),
        codec_, std::move(done));
  }

  // `patch` is JSON of the patch's type; for kApply the fields that the manager owns from now on.
  std::unique_ptr<PendingCall> Patch(absl::string_view ns, absl::string_view name,
                                     PatchType patch_type, std::string patch,
                                     const PatchOptions& options, DoneWith<ObjectPtr<T>> done,
                                     absl::string_view subresource = "") const {
    return StartObject<T>(client_,
                          PatchRequest(type_, ns, name, subresource, patch_type, std::move(patch),
                                       options, encoding()),
                          codec_, std::move(done));
  }

  // Null: the server gave no object. One that it gave may be gone, or wait for its finalizers.
  std::unique_ptr<PendingCall> Delete(absl::string_view ns, absl::string_view name,
                                      const DeleteOptions& options,
                                      DoneWith<ObjectPtr<T>> done) const {
    return client_->Start(
        DeleteRequest(type_, ns, name, options, encoding()),
        [codec = codec_, done = std::move(done)](absl::StatusOr<ApiResponse> response) mutable {
          if (!response.ok()) return done(response.status());
          if (IsStatusBody(response->body)) return done(ObjectPtr<T>());
          done(codec->ParseBody(response->body));
        });
  }

  // Of `list`, selectors, limit and versions count.
  std::unique_ptr<PendingCall> DeleteCollection(absl::string_view ns, const ListOptions& list,
                                                const DeleteOptions& options,
                                                Client::Done done) const {
    return client_->Start(DeleteCollectionRequest(type_, ns, list, options, encoding()),
                          std::move(done));
  }

  // Of what has the subresource, also custom resources. Errors: those of Get and Update, and for a
  // custom resource that does not say how many it wants, kServerFailed of a read.
  std::unique_ptr<PendingCall> GetScale(absl::string_view ns, absl::string_view name,
                                        DoneWith<ObjectPtr<autoscaling_v1::Scale>> done) const {
    const ScaleCodec codec = MakeScaleCodec();
    return StartObject<autoscaling_v1::Scale>(
        client_, GetRequest(type_, ns, name, codec->encoding(), "scale"), codec, std::move(done));
  }
  std::unique_ptr<PendingCall> UpdateScale(const autoscaling_v1::Scale& scale,
                                           const WriteOptions& options,
                                           DoneWith<ObjectPtr<autoscaling_v1::Scale>> done) const {
    using Traits = ObjectTraits<autoscaling_v1::Scale>;
    const ScaleCodec codec = MakeScaleCodec();
    return StartObject<autoscaling_v1::Scale>(
        client_,
        UpdateRequest(type_, Traits::Namespace(scale), Traits::Name(scale), "scale",
                      codec->Write(scale), !Traits::ResourceVersion(scale).empty(), options,
                      codec->encoding()),
        codec, std::move(done));
  }
  // As Patch, of a Scale: `{"spec":{"replicas":3}}`.
  std::unique_ptr<PendingCall> PatchScale(absl::string_view ns, absl::string_view name,
                                          PatchType patch_type, std::string patch,
                                          const PatchOptions& options,
                                          DoneWith<ObjectPtr<autoscaling_v1::Scale>> done) const {
    const ScaleCodec codec = MakeScaleCodec();
    return StartObject<autoscaling_v1::Scale>(
        client_,
        PatchRequest(type_, ns, name, "scale", patch_type, std::move(patch), options,
                     codec->encoding()),
        codec, std::move(done));
  }

 private:
  using ScaleCodec = std::shared_ptr<const Codec<autoscaling_v1::Scale>>;

  Encoding encoding() const { return codec_->encoding(); }
  // In the encoding of the objects.
  static ScaleCodec MakeScaleCodec() {
    if constexpr (std::is_same_v<T, DynamicObject>) {
      return std::make_shared<const ScaleJsonCodec>();
    } else {
      return MakeCodec<autoscaling_v1::Scale>(kScales.type());
    }
  }

  Client* client_;
  ResourceType type_;
  std::shared_ptr<const Codec<T>> codec_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_TYPED_CLIENT_H_
