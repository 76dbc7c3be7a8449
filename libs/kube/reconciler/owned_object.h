// Owner references of Kubernetes' messages.
#ifndef CAPSTAN_LIBS_KUBE_RECONCILER_OWNED_OBJECT_H_
#define CAPSTAN_LIBS_KUBE_RECONCILER_OWNED_OBJECT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/proto_traits.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/reconciler/ownership.h"

namespace capstan::kube {

// For WatchOwned.
template <ProtoObject T>
std::vector<OwnerReference> OwnersOf(const T& object) {
  std::vector<OwnerReference> owners;
  for (const auto& owner : object.metadata().owner_references()) {
    owners.push_back({owner.api_version(), owner.kind(), owner.name(), owner.uid(),
                      owner.controller(), owner.block_owner_deletion()});
  }
  return owners;
}

// An index (InformerOptions::indexes): objects by the uid of their controller.
template <ProtoObject T>
std::vector<std::string> ControllerUids(const T& object) {
  for (const auto& owner : object.metadata().owner_references()) {
    if (owner.controller()) return {owner.uid()};
  }
  return {};
}

// Makes `owner`, which is of that type, the controller of `object`. As SetController of a list.
template <typename Owner, ProtoObject T>
absl::Status SetController(const ResourceType& type, const Owner& owner, T* object) {
  using Traits = ObjectTraits<Owner>;
  std::vector<OwnerReference> owners = OwnersOf(*object);
  absl::Status set = SetController({ApiVersion(type), type.kind, std::string(Traits::Name(owner)),
                                    std::string(Traits::Uid(owner)), true, true},
                                   &owners);
  if (!set.ok()) return set;
  object->mutable_metadata()->clear_owner_references();
  for (OwnerReference& reference : owners) {
    auto* const added = object->mutable_metadata()->add_owner_references();
    added->set_api_version(std::move(reference.api_version));
    added->set_kind(std::move(reference.kind));
    added->set_name(std::move(reference.name));
    added->set_uid(std::move(reference.uid));
    added->set_controller(reference.controller);
    added->set_block_owner_deletion(reference.block_owner_deletion);
  }
  return absl::OkStatus();
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_RECONCILER_OWNED_OBJECT_H_
