// Who owns an object and what keeps it from being deleted, as functions on its metadata.
#ifndef CAPSTAN_LIBS_KUBE_RECONCILER_OWNERSHIP_H_
#define CAPSTAN_LIBS_KUBE_RECONCILER_OWNERSHIP_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan::kube {

// metav1.OwnerReference. The owner is in the object's namespace, or in none.
struct OwnerReference {
  // E.g. `apps/v1`.
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  // At most one owner of an object controls it.
  bool controller = false;
  bool block_owner_deletion = false;

  friend bool operator==(const OwnerReference&, const OwnerReference&) = default;
};

// Null if none controls it. Valid as long as `owners`.
const OwnerReference* FindController(const std::vector<OwnerReference>& owners);

// Makes `owner` the controller, in place of what was said of the same uid before.
// FAILED_PRECONDITION with reason ALREADY_CONTROLLED, and no change, if another is;
// INVALID_ARGUMENT if `owner` lacks a field.
absl::Status SetController(OwnerReference owner, std::vector<OwnerReference>* owners);

// Names of the owners of that kind, in any version of `group` ("" for the core), each once, in
// their order: what to reconcile when the object changes.
std::vector<std::string> OwnersOfKind(const std::vector<OwnerReference>& owners,
                                      absl::string_view group, absl::string_view kind);

// False if there is nothing to change.
bool AddFinalizer(absl::string_view finalizer, std::vector<std::string>* finalizers);
bool RemoveFinalizer(absl::string_view finalizer, std::vector<std::string>* finalizers);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_RECONCILER_OWNERSHIP_H_
