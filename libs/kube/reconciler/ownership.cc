#include "libs/kube/reconciler/ownership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::kube {

const OwnerReference* FindController(const std::vector<OwnerReference>& owners) {
  for (const OwnerReference& owner : owners) {
    if (owner.controller) return &owner;
  }
  return nullptr;
}

absl::Status SetController(OwnerReference owner, std::vector<OwnerReference>* owners) {
  if (owner.api_version.empty() || owner.kind.empty() || owner.name.empty() || owner.uid.empty()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INCOMPLETE_OWNER",
                         "an owner needs an API version, a kind, a name and a uid; take them from "
                         "the owner as the server gave it");
  }
  const OwnerReference* other = FindController(*owners);
  if (other != nullptr && other->uid != owner.uid) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "ALREADY_CONTROLLED",
        absl::StrCat("the object is controlled by ", other->kind, " ", other->name, ", so ",
                     owner.kind, " ", owner.name, " cannot; leave it to its controller"));
  }
  owner.controller = true;
  owner.block_owner_deletion = true;
  const auto same =
      std::find_if(owners->begin(), owners->end(),
                   [&](const OwnerReference& candidate) { return candidate.uid == owner.uid; });
  if (same == owners->end()) {
    owners->push_back(std::move(owner));
  } else {
    *same = std::move(owner);
  }
  return absl::OkStatus();
}

std::vector<std::string> OwnersOfKind(const std::vector<OwnerReference>& owners,
                                      absl::string_view group, absl::string_view kind) {
  std::vector<std::string> names;
  for (const OwnerReference& owner : owners) {
    const size_t slash = owner.api_version.find('/');
    const absl::string_view its_group = slash == std::string::npos
                                            ? absl::string_view()
                                            : absl::string_view(owner.api_version).substr(0, slash);
    if (its_group != group || owner.kind != kind) continue;
    if (std::find(names.begin(), names.end(), owner.name) == names.end()) {
      names.push_back(owner.name);
    }
  }
  return names;
}

bool AddFinalizer(absl::string_view finalizer, std::vector<std::string>* finalizers) {
  if (std::find(finalizers->begin(), finalizers->end(), finalizer) != finalizers->end()) {
    return false;
  }
  finalizers->emplace_back(finalizer);
  return true;
}

bool RemoveFinalizer(absl::string_view finalizer, std::vector<std::string>* finalizers) {
  const auto rest = std::remove(finalizers->begin(), finalizers->end(), finalizer);
  const bool found = rest != finalizers->end();
  finalizers->erase(rest, finalizers->end());
  return found;
}

}  // namespace capstan::kube
