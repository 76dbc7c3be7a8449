#ifndef CAPSTAN_LIBS_AUTH_POLICY_H_
#define CAPSTAN_LIBS_AUTH_POLICY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "libs/auth/spiffe_id.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace capstan::auth {

// What a PolicySnapshot says, indexed. Immutable, so shared between threads.
class Policy {
 public:
  // `received` is when the snapshot came in, on the boot clock of this process.
  Policy(const credentials::v1::PolicySnapshot& snapshot, BootTime received);
  // A policy whose denials alone hold: what an earlier process heard at about `received`.
  static std::shared_ptr<const Policy> Kept(const credentials::v1::PolicySnapshot& snapshot,
                                            BootTime received);

  int64_t revision() const { return revision_; }
  BootTime received() const { return received_; }
  // From then on it no longer decides about people. Denials in it hold all the same.
  BootTime expires() const { return expires_; }

  // True if the id, a path above it, or the certificate's serial was denied.
  bool IsDenied(const SpiffeId& id, absl::string_view serial) const;

  // True if a role of the person gives `permission` on a resource of `project`; empty `project`
  // means a resource outside of all projects, `-` all projects at once.
  bool Gives(absl::string_view person, absl::string_view permission,
             absl::string_view project) const;

  // Whether there is a Project of this id.
  bool HasProject(absl::string_view project) const;

  // Projects in which the person has a role that gives `permission`; `*everywhere` is set if the
  // role holds in the whole trust domain. For List methods that filter by what the caller may see.
  std::vector<std::string> ProjectsWith(absl::string_view person, absl::string_view permission,
                                        bool* everywhere) const;

  // A role that a person holds.
  struct Binding {
    // Id; empty for the whole trust domain.
    std::string project;
    credentials::v1::RoleBinding::Role role;
  };
  // Those of one person, by project, then role.
  std::vector<Binding> RolesOf(absl::string_view person) const;

  // The deny list alone, in the order of its entries: what Kept takes.
  credentials::v1::PolicySnapshot Denials() const;

 private:
  int64_t revision_;
  BootTime received_;
  BootTime expires_;
  // Ids.
  absl::flat_hash_set<std::string> projects_;
  absl::flat_hash_map<std::string, std::vector<Binding>> bindings_;
  // Full ids and bare paths; those ending in `/` deny everything below.
  absl::flat_hash_set<std::string> denied_ids_;
  absl::flat_hash_set<std::string> denied_serials_;
};

// The policy in force; the watcher sets it, everyone reads it. Thread-safe. Starts without a
// policy, which decides like an expired one that denies no one.
class PolicyHolder {
 public:
  // Takes a newer policy. One with a lower revision replaces it as well: it comes from a restored
  // store.
  void Set(std::shared_ptr<const Policy> policy);
  // May be null.
  std::shared_ptr<const Policy> Get() const;
  // `changed` is called after each Set from now on, on its thread; it must not set a policy. With
  // null, none is under way any more once this returns.
  void OnChange(std::function<void()> changed);

 private:
  // Held while `changed_` runs.
  absl::Mutex observer_mutex_;
  std::function<void()> changed_ ABSL_GUARDED_BY(observer_mutex_);
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Policy> policy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_POLICY_H_
