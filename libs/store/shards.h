#ifndef CAPSTAN_LIBS_STORE_SHARDS_H_
#define CAPSTAN_LIBS_STORE_SHARDS_H_

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/store/leadership.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// Shares of a service's work, each done by one of its replicas at a time: a key with a lease says
// who is there, and a Leadership for each shard who does it. Everyone computes the same assignment
// from those who are there (AssignShards), claims what is its own and gives up what is not, so that
// the shards of one that is gone are taken once its leases have run out, and one that comes gets
// its part. On the strand only, destruction included.
class Shards {
 public:
  struct Options {
    // The keys are `<prefix>member/<member>` and `<prefix>shard/<number>`.
    std::string prefix;
    // This process; no two that run at once may have the same.
    std::string member;
    int count = 16;
    absl::Duration ttl = absl::Seconds(4);
    absl::Duration margin = absl::Milliseconds(400);
    absl::Duration retry_after = absl::Milliseconds(500);
    // As of Leadership: then all shards are this process'.
    bool sole_owner = false;
  };
  // Alternate for each shard, as those of Leadership do. The term is valid until `on_lost`.
  struct Callbacks {
    absl::AnyInvocable<void(int shard, const Leadership& term)> on_gained;
    absl::AnyInvocable<void(int shard, absl::Status why)> on_lost;
  };

  // `store` and `strand` must outlive it; `strand` must be the one on which the store calls back.
  Shards(Store* store, Strand* strand, Options options);
  ~Shards();
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  // Begins to take part. Once.
  void Start(Callbacks callbacks);
  // Gives up the term of a shard, and tries again after `retry_after`.
  void StepDown(int shard, absl::Status why);
  // Gives up everything for good; `done` runs once the keys are gone, or can't be removed (then
  // with the last error).
  void Resign(DoneCallback done);

 private:
  void Look();
  void LookAgain();
  // Claims and gives up, by who is there.
  void Balance();

  Store* const store_;
  Strand* const strand_;
  const Options options_;
  Callbacks callbacks_;
  Leadership membership_;
  std::set<std::string> members_;
  // Those that are ours by the assignment; led or being claimed.
  std::map<int, std::unique_ptr<Leadership>> claims_;
  std::unique_ptr<Watch> watch_;
  Strand::TimerId retry_timer_ = 0;
  bool resigned_ = false;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SHARDS_H_
