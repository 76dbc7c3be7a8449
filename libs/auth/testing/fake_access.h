#ifndef CAPSTAN_LIBS_AUTH_TESTING_FAKE_ACCESS_H_
#define CAPSTAN_LIBS_AUTH_TESTING_FAKE_ACCESS_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "libs/auth/access.h"
#include "libs/auth/access_rules.h"
#include "libs/auth/principal.h"
#include "libs/auth/spiffe_id.h"

namespace capstan::auth {

// Admits one given principal to everything, or refuses everything: for tests over an in-process
// channel, which carries no certificate. Thread-safe.
class FakeAccess final : public Access {
 public:
  FakeAccess() : id_(SpiffeId::Person("test.capstan.dev", "1000")) {}

  // From now on every call comes from `id`.
  void CallAs(SpiffeId id) {
    absl::MutexLock lock(&mutex_);
    id_ = std::move(id);
  }
  // What Authorize and Recheck answer from now on; OK admits again.
  void Refuse(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    refusal_ = std::move(status);
  }

  absl::StatusOr<Caller> Authorize(const Peer&, absl::string_view method,
                                   const google::protobuf::Message* request) override {
    absl::MutexLock lock(&mutex_);
    if (!refusal_.ok()) return refusal_;
    Caller caller;
    caller.id = id_;
    caller.method = std::string(method);
    const type::v1::AccessRule* rule = rules_.Find(method);
    if (rule != nullptr) {
      caller.permission = rule->permission();
      caller.audited = rule->audited();
      if (request != nullptr && !rule->resource_field().empty()) {
        caller.resource = ResourceOf(*request, rule->resource_field());
      }
    }
    return caller;
  }
  // Every Node has the Placement that it claims.
  absl::Status CheckPlacement(const Caller&, const PlacementClaim&) override {
    absl::MutexLock lock(&mutex_);
    return refusal_;
  }
  absl::Status Recheck(const Caller&) override {
    absl::MutexLock lock(&mutex_);
    return refusal_;
  }

 private:
  absl::Mutex mutex_;
  SpiffeId id_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  AccessRules rules_;
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_TESTING_FAKE_ACCESS_H_
