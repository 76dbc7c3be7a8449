#ifndef CAPSTAN_SERVICES_SCHEDULER_SIMULATIONS_H_
#define CAPSTAN_SERVICES_SCHEDULER_SIMULATIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/simulated_state.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {

// Answers what would happen if, from what is committed, on leaders and followers alike. Of a large
// state the answer takes far less than what comes before it, copying the state and finding out what
// happens anyway: so one such simulation is kept ready, and made anew while things change, for at
// most a small part of one core's time. An answer that rests on it
// - is of a state that was committed at most `max_age` ago, and says when;
// - counts all changes of Nodes, Queues, maintenance windows and orders that this replica has seen,
//   and all that the caller has done through it.
// Any other, of a request whose Jobs come after others too, rests on what is committed now. The
// strand is never held for longer than copying `jobs_per_piece` Jobs and the Nodes takes.
// On the engine's strand but for what is said of `done`.
class Simulations final : private CommittedView::Listener {
 public:
  struct Options {
    // Nodes and Jobs from which on a simulation is kept ready.
    size_t worth_preparing = 2'000;
    size_t jobs_per_piece = 500;
    // How often one is made anew, and no oftener than so many times what that takes.
    absl::Duration renew_every = absl::Seconds(1);
    int pause_times_cost = 20;
    absl::Duration max_age = absl::Seconds(5);
    // Requests at once; each has a state of its own.
    int max_requests = 4;
  };
  using Request = capstan::scheduler::v1::SimulatePlacementRequest;
  using Response = capstan::scheduler::v1::SimulatePlacementResponse;
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

  // All outlive it. `beside` is where simulations are made and run.
  Simulations(const CoreConfig& config, const Options& options, CommittedView* view, Strand* strand,
              Strand* beside);
  // What waits is told that it is UNAVAILABLE; what is being run is answered all the same.
  ~Simulations() override;
  Simulations(const Simulations&) = delete;
  Simulations& operator=(const Simulations&) = delete;

  // Of a request that is whole and good as far as that can be said of it alone, once the view is
  // ready. `done` is called once, on any thread; RESOURCE_EXHAUSTED with TOO_MANY_SIMULATIONS.
  void Simulate(Request request, std::string submitter, Done done);
  // The principal has changed something, which is committed at `revision`.
  void ChangedBy(const std::string& principal, int64_t revision);

  // Of those that began: how many found one ready, for tests and benchmarks.
  int64_t found_ready() const { return found_ready_; }
  bool is_ready() const { return ready_.has_value(); }

 private:
  struct Asked {
    Request request;
    std::string submitter;
    Done done;
  };
  // One that is made, and what it is of.
  struct Ready {
    std::shared_ptr<Simulation> simulation;
    int64_t revision = 0;
    Now copied;
  };

  void JobsChanged(const std::set<std::string>& uids) override;
  void NodesChanged(const std::set<NodeId>&) override { Arm(); }
  void FleetChanged() override;
  void QueuesChanged() override { FleetChanged(); }
  void OrdersChanged() override { FleetChanged(); }
  void Closing() override {}

  bool IsLarge() const;
  bool IsGoodFor(const Ready& ready, const std::string& submitter) const;
  // From what is committed now, in one go.
  void RunAtOnce(Asked asked);
  void Run(Ready ready, Asked asked);
  void Prepare();
  void CopyOn();
  void Made(Ready ready, absl::Duration took);
  // For the next that is made so that one is ready.
  void Arm();

  const CoreConfig config_;
  const Options options_;
  CommittedView* const view_;
  Strand* const strand_;
  Strand* const beside_;
  // Under way or waiting.
  int requests_ = 0;
  std::deque<Asked> waiting_;
  absl::optional<Ready> ready_;
  int64_t found_ready_ = 0;
  // One is being made: copied, as long as there is a copy.
  bool making_ = false;
  absl::optional<StateCopy> copy_;
  absl::Duration copying_;
  // The next is not made before, unless somebody waits.
  BootTime renew_at_ = BootTime::InfinitePast();
  Strand::TimerId timer_ = 0;
  // Last revisions of what counts in every answer, and of what each principal did.
  int64_t fleet_revision_ = 0;
  absl::flat_hash_map<std::string, int64_t> changed_by_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_SIMULATIONS_H_
