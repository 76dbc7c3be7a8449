#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_POLICY_STATE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_POLICY_STATE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

// Projects, role bindings and the deny list, in the order of their names. Each change raises the
// policy's revision in the transaction that makes it. Bounded, so that a snapshot stays below
// gRPC's 4 MiB.
class PolicyState {
 public:
  static constexpr size_t kMaxProjects = 1'000;
  static constexpr size_t kMaxRoleBindings = 8'000;
  static constexpr size_t kMaxDenied = 4'000;

  void Load(const v1::PolicyHeadRecord& head) { revision_ = head.revision(); }
  void Load(const v1::ProjectRecord& record);
  void Load(const v1::RoleBindingRecord& record);
  void Load(const v1::DenyRecord& record);

  // Each checks, then changes the state and adds what is to be stored to `step`; an error changes
  // nothing.
  absl::Status AddProject(const v1::Project& project, Step* step);
  absl::Status AddRoleBinding(const v1::RoleBinding& binding, Step* step);
  absl::Status RemoveRoleBinding(const std::string& name, Step* step);
  // Denying what is denied changes nothing and is OK.
  absl::Status Deny(const v1::DenyRecord& record, Step* step);
  // Takes back what was denied by exactly this id (or prefix) or serial; NOT_FOUND otherwise.
  absl::Status DeleteDenial(const std::string& spiffe_id, const std::string& serial, Step* step);

  // Null if there is none.
  const v1::Project* FindProject(const std::string& name) const;
  const v1::RoleBinding* FindRoleBinding(const std::string& name) const;
  bool IsDeniedId(absl::string_view spiffe_id) const;
  bool IsDeniedSerial(const std::string& serial) const { return denied_serials_.count(serial) > 0; }

  int64_t revision() const { return revision_; }
  v1::PolicySnapshot Snapshot(absl::Duration valid) const;

 private:
  void Raise(Step* step);
  int TrustDomainAdmins() const;

  int64_t revision_ = 0;
  std::map<std::string, v1::Project> projects_;
  std::map<std::string, v1::RoleBinding> bindings_;
  // Full ids, and prefixes that end in `/`.
  std::set<std::string> denied_ids_;
  std::set<std::string> denied_serials_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_POLICY_STATE_H_
