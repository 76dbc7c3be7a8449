#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_CREDENTIALS_CORE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_CREDENTIALS_CORE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/audit_chain.h"
#include "services/credentials/core/event.h"
#include "services/credentials/core/issuance_state.h"
#include "services/credentials/core/jwt_keyring.h"
#include "services/credentials/core/policy_state.h"

namespace capstan::credentials {

struct CoreConfig {
  // Lives of certificates by kind. The floor of 30 s is the server's to hold.
  absl::Duration svid_ttl = absl::Hours(24);
  absl::Duration task_svid_ttl = absl::Hours(24);
  absl::Duration person_svid_ttl = absl::Hours(1);
  // A person's SVID is renewed no longer than this after the kernel vouched for the person.
  absl::Duration person_session = absl::Hours(12);
  absl::Duration token_default_ttl = absl::Minutes(15);
  absl::Duration token_max_ttl = absl::Hours(24);
  absl::Duration token_repeat_window = absl::Minutes(1);
  // Repeats of a refusal are counted for this long before they are recorded.
  absl::Duration refusal_fold_window = absl::Minutes(1);
  // How long a service may decide from a policy snapshot.
  absl::Duration policy_valid = absl::Minutes(5);
  // Life of a token that asks for none; and of the keys that sign them.
  absl::Duration jwt_default_ttl = absl::Minutes(5);
  JwtKeyConfig jwt_keys = {};
  // How long a request_id is remembered.
  absl::Duration request_memory = absl::Hours(24);
};

// Everything that credentials decides. Pure: no I/O, no clock, no keys, no randomness of its own;
// what comes out depends on the stored records, the events and the times given with them.
//
// Each Apply leaves the state as it will be once its Step is committed; if a commit fails, the
// object is thrown away and another one loads what was stored. Several replicas may share the
// records: each commits only on top of what it has loaded.
class CredentialsCore {
 public:
  explicit CredentialsCore(const CoreConfig& config);

  // Takes all records below kKeyRoot, in any order, before the first Apply; later those that
  // another replica has put since. (What another has deleted takes a new object, loaded anew.)
  // DATA_LOSS, naming the key, if one cannot be read.
  absl::Status Load(const std::vector<store::KeyValue>& records);

  // What no record holds, for the object that takes this one's place: refusals that are only
  // counted, keys that are being made.
  struct Unstored {
    AuditChain::Windows windows;
    JwtKeyring::Unstored keys;
    Now last_now;
  };
  Unstored unstored() const { return {audit_.windows(), jwt_keys_.unstored(), last_now_}; }
  // Once, after the first Load.
  void Restore(Unstored unstored);

  // False until the first run's record is there: then only FirstRun may be applied.
  bool initialised() const { return trust_domain_.has_value(); }
  // Only when initialised().
  const v1::TrustDomainRecord& trust_domain() const { return *trust_domain_; }

  Step Apply(const Event& event, const Now& now);

  // When Tick is due; nothing while nothing waits for time to pass.
  absl::optional<BootTime> NextDeadline() const;

  v1::PolicySnapshot Snapshot() const { return policy_.Snapshot(config_.policy_valid); }
  const JwtKeyring& jwt_keys() const { return jwt_keys_; }
  const CoreConfig& config() const { return config_; }

 private:
  Step On(const FirstRun& event, const Now& now);
  Step On(const CreateJoinToken& event, const Now& now);
  Step On(const Join& event, const Now& now);
  Step On(const RenewSvid& event, const Now& now);
  Step On(const IssueTaskSvid& event, const Now& now);
  Step On(const IssueTaskJwt& event, const Now& now);
  Step On(const JwtKeyMade& event, const Now& now);
  Step On(const IssuePersonSvid& event, const Now& now);
  Step On(const IssueOwnSvid& event, const Now& now);
  Step On(const CreateProject& event, const Now& now);
  Step On(const CreateRoleBinding& event, const Now& now);
  Step On(const DeleteRoleBinding& event, const Now& now);
  Step On(const DenyIdentity& event, const Now& now);
  Step On(const DeleteDenial& event, const Now& now);
  Step On(const RecordAct& event, const Now& now);
  Step On(const Tick& event, const Now& now);

  std::string IdOf(absl::string_view path) const;
  // OK unless id or serial is on the deny list.
  absl::Status CheckNotDenied(const std::string& spiffe_id, const std::string& serial) const;
  // Decides and records a certificate; CheckRoom must have been OK.
  IssueOrder Issue(const std::string& spiffe_id, auth::SpiffeId::Kind kind,
                   const CertifiableKey& key, absl::Time session_start, const Now& now, Step* step,
                   const std::string& node = "");
  // OK unless a live certificate of the Task was issued to another Node, or, with `must_hold`, to
  // none.
  absl::Status CheckNode(const std::string& node, const std::string& task, absl::Time now,
                         bool must_hold) const;
  void Audit(absl::string_view principal, absl::string_view act, absl::string_view resource,
             const std::string& message, const Now& now, Step* step);
  // A Step that refuses, and says so in the chain.
  Step Refuse(CallId call, absl::string_view principal, absl::string_view act,
              absl::string_view resource, const absl::Status& answer, const std::string& message,
              const Now& now);
  void Publish(Step* step) const;
  void PublishKeys(Step* step) const;
  // Asks for the keys that are due, and deletes those that nobody needs.
  void RotateKeys(absl::Time now, Step* step);

  // The answer to a request_id seen before, if it was.
  absl::optional<absl::StatusOr<Outcome>> Repeated(const RequestIdentity& request) const;
  void Remember(const RequestIdentity& request, const std::string& resource, const Now& now,
                Step* step);
  void LoadRequest(const v1::RequestRecord& record);
  void PruneRequests(absl::Time now, Step* step);

  const CoreConfig config_;
  absl::optional<v1::TrustDomainRecord> trust_domain_;
  AuditChain audit_;
  PolicyState policy_;
  IssuanceState issuance_;
  JwtKeyring jwt_keys_;
  // By Unix uid, as text.
  std::set<std::string> persons_;
  // By store key.
  std::map<std::string, v1::RequestRecord> requests_;
  std::set<std::pair<absl::Time, std::string>> request_ends_;
  Now last_now_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_CREDENTIALS_CORE_H_
