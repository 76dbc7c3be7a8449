#ifndef CAPSTAN_INTEGRATION_SIMULATION_REMOTE_STORE_H_
#define CAPSTAN_INTEGRATION_SIMULATION_REMOTE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "libs/store/mvcc_map.h"
#include "libs/store/store.h"

namespace capstan::simulation {

// A store on machines of its own, as etcd is: it never crashes, but may be full, slow,
// failing or cut off.
struct StoreServer {
  static constexpr char kName[] = "credentials-store";
  store::MvccMap map;
  // What is there now, for those who look from outside the world; full, slow and failing is the
  // store.
  Disk disk;
  // Run after each transaction that has taken effect.
  std::function<void()> applied = [] {};
  // Watches that wait for the next one.
  std::vector<std::function<void()>> waiting;

  absl::StatusOr<store::TxnResult> Apply(const store::TxnRequest& request);
  // What a mutant takes for the result.
  store::TxnResult Seeming() const;
};

// One life's connection to a store. What it asks may get lost on the way there or, done, on the way
// back; then it is told so after a while, and does not know. A watch goes on where it was.
class RemoteStore final : public store::Store {
 public:
  RemoteStore(Network* network, Process* process, StoreServer* server, const Mutants* mutants)
      : network_(network),
        process_(process),
        server_(server),
        mutants_(mutants),
        life_(process->life()) {}

  void Range(store::RangeRequest request, store::Callback<store::RangeResult> done) override;
  void Txn(store::TxnRequest request, store::Callback<store::TxnResult> done) override;
  std::unique_ptr<store::Watch> StartWatch(
      store::WatchRequest request,
      absl::AnyInvocable<void(absl::StatusOr<store::WatchBatch>)> on_batch) override;
  // Nobody here has any.
  void GrantLease(absl::Duration ttl, store::Callback<store::LeaseId> done) override;
  void KeepAliveLease(store::LeaseId lease, store::Callback<absl::Duration> done) override;
  void RevokeLease(store::LeaseId lease, store::DoneCallback done) override;
  void Compact(int64_t revision, store::DoneCallback done) override;
  int64_t incarnation() const override { return 1; }

 private:
  struct Watcher;
  class WatchHandle;

  // Runs `serve` at the store, if it is reached, and what that returns with its result back here.
  template <typename T>
  void Call(const std::function<absl::StatusOr<T>()>& serve, absl::Duration takes,
            store::Callback<T> done);
  // Brings a watch what is new, now and then, as long as there is one.
  static void Feed(Network* network, Process* process, int64_t life, StoreServer* server,
                   const std::weak_ptr<Watcher>& watcher, absl::Duration delay);

  Network* const network_;
  Process* const process_;
  StoreServer* const server_;
  const Mutants* const mutants_;
  const int64_t life_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_REMOTE_STORE_H_
