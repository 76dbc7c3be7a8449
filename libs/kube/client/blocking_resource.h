#ifndef CAPSTAN_LIBS_KUBE_CLIENT_BLOCKING_RESOURCE_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_BLOCKING_RESOURCE_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/client/await.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {

// Resource's calls for threads that may wait: never on the client's strand, whose end would never
// come. Thread-safe. The client and its strand must be there until each call has returned.
template <typename T>
class BlockingResource {
 public:
  explicit BlockingResource(Resource<T> resource) : resource_(std::move(resource)) {}

  absl::StatusOr<ObjectPtr<T>> Get(absl::string_view ns, absl::string_view name) const {
    return AwaitObject([&](auto done) { return resource_.Get(ns, name, std::move(done)); });
  }
  absl::StatusOr<ListPage<T>> List(absl::string_view ns, const ListOptions& options) const {
    return AwaitPage([&](auto done) { return resource_.List(ns, options, std::move(done)); });
  }
  absl::StatusOr<ListPage<T>> ListAll(absl::string_view ns, const ListOptions& options) const {
    return AwaitPage([&](auto done) { return resource_.ListAll(ns, options, std::move(done)); });
  }
  absl::StatusOr<ObjectPtr<T>> Create(const T& object, const WriteOptions& options = {}) const {
    return AwaitObject(
        [&](auto done) { return resource_.Create(object, options, std::move(done)); });
  }
  absl::StatusOr<ObjectPtr<T>> Update(const T& object, const WriteOptions& options = {},
                                      absl::string_view subresource = "") const {
    return AwaitObject(
        [&](auto done) { return resource_.Update(object, options, std::move(done), subresource); });
  }
  absl::StatusOr<ObjectPtr<T>> Patch(absl::string_view ns, absl::string_view name,
                                     PatchType patch_type, const std::string& patch,
                                     const PatchOptions& options,
                                     absl::string_view subresource = "") const {
    return AwaitObject([&](auto done) {
      return resource_.Patch(ns, name, patch_type, patch, options, std::move(done), subresource);
    });
  }
  absl::StatusOr<ObjectPtr<T>> Delete(absl::string_view ns, absl::string_view name,
                                      const DeleteOptions& options = {}) const {
    return AwaitObject(
        [&](auto done) { return resource_.Delete(ns, name, options, std::move(done)); });
  }
  absl::StatusOr<ApiResponse> DeleteCollection(absl::string_view ns, const ListOptions& list,
                                               const DeleteOptions& options = {}) const {
    return Await<ApiResponse>(strand(), [&](auto done) {
      return resource_.DeleteCollection(ns, list, options, std::move(done));
    });
  }
  absl::StatusOr<ObjectPtr<autoscaling_v1::Scale>> GetScale(absl::string_view ns,
                                                            absl::string_view name) const {
    return AwaitScale([&](auto done) { return resource_.GetScale(ns, name, std::move(done)); });
  }
  absl::StatusOr<ObjectPtr<autoscaling_v1::Scale>> UpdateScale(
      const autoscaling_v1::Scale& scale, const WriteOptions& options = {}) const {
    return AwaitScale(
        [&](auto done) { return resource_.UpdateScale(scale, options, std::move(done)); });
  }
  absl::StatusOr<ObjectPtr<autoscaling_v1::Scale>> PatchScale(absl::string_view ns,
                                                              absl::string_view name,
                                                              PatchType patch_type,
                                                              const std::string& patch,
                                                              const PatchOptions& options) const {
    return AwaitScale([&](auto done) {
      return resource_.PatchScale(ns, name, patch_type, patch, options, std::move(done));
    });
  }

 private:
  Strand* strand() const { return resource_.client()->strand(); }
  template <typename Start>
  absl::StatusOr<ObjectPtr<T>> AwaitObject(Start start) const {
    return Await<ObjectPtr<T>>(strand(), std::move(start));
  }
  template <typename Start>
  absl::StatusOr<ObjectPtr<autoscaling_v1::Scale>> AwaitScale(Start start) const {
    return Await<ObjectPtr<autoscaling_v1::Scale>>(strand(), std::move(start));
  }
  template <typename Start>
  absl::StatusOr<ListPage<T>> AwaitPage(Start start) const {
    return Await<ListPage<T>>(strand(), std::move(start));
  }

  const Resource<T> resource_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_BLOCKING_RESOURCE_H_
