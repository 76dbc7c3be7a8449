#ifndef CAPSTAN_LIBS_AUTH_POLICY_WATCHER_H_
#define CAPSTAN_LIBS_AUTH_POLICY_WATCHER_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "libs/auth/policy.h"
#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/strand/strand.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace capstan::auth {

// Keeps a PolicyHolder up to date from the credentials service. When the stream ends or falls
// silent it connects again, with back-off; meanwhile the holder keeps what it has, which decides
// until it expires. Everything but the holder belongs to one strand.
class PolicyWatcher {
 public:
  // The pointers must outlive the watcher, `stub` and `strand` also the calls under way.
  PolicyWatcher(credentials::v1::PolicyService::StubInterface* stub, PolicyHolder* holder,
                Strand* strand, Random* random);
  // On the strand, or after it has stopped.
  ~PolicyWatcher();

  // On the strand. `on_first`, if given, runs once, when the first policy is in force.
  void Start(absl::AnyInvocable<void()> on_first = nullptr);

 private:
  struct Link;

  void Connect();
  void OnSnapshot(const credentials::v1::PolicySnapshot& snapshot);
  void OnClosed();
  // Arms the timer that ends a silent stream: messages come at least every third of a life.
  void ExpectMessage(absl::Duration life);

  credentials::v1::PolicyService::StubInterface* const stub_;
  PolicyHolder* const holder_;
  Strand* const strand_;
  rpc::Reconnect reconnect_;
  absl::AnyInvocable<void()> on_first_;
  // The stream under way; its callbacks hold it and find the watcher through it.
  std::shared_ptr<Link> link_;
  Strand::TimerId silence_timer_ = 0;
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_POLICY_WATCHER_H_
