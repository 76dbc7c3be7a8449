#ifndef CAPSTAN_SERVICES_SCHEDULER_BATCH_SIMULATIONS_H_
#define CAPSTAN_SERVICES_SCHEDULER_BATCH_SIMULATIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "libs/time/cpu_clock.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/shared_state.h"
#include "services/scheduler/core/simulated_state.h"
#include "services/scheduler/cpu_budget.h"

namespace capstan::scheduler {

// Answers many questions of what would happen, each of a batch from one state that was committed
// when its turn came. Batches are for followers, who have nothing else to do: whoever leads takes
// only those that say that it may. One batch is under way at a time, one alternative after the
// other, beside the strand and beside single simulations, which so wait for none of it.
//
// All that batches take of processors, copies of the state on the strand included, is at most a
// part of one core over any span of time, and what one alternative takes. The strand is never held
// for longer than copying `jobs_per_piece` Jobs and the Nodes takes. On the engine's strand.
class BatchSimulations final : private CommittedView::Listener {
 public:
  struct Options {
    // Of one core, 1 to 100.
    int max_core_percent = 25;
    size_t jobs_per_piece = 500;
    // Batches beside the one under way.
    size_t max_waiting = 4;
    // How long an answer may stay unread, which holds up all batches.
    absl::Duration max_unread = absl::Seconds(30);
  };
  using Request = capstan::scheduler::v1::SimulatePlacementRequest;
  using Response = capstan::scheduler::v1::SimulatePlacementResponse;

  struct Batch {
    // At least one. Whole, and good as far as that can be said of them alone.
    std::vector<Request> alternatives;
    std::string submitter;
    // It may be answered while this replica leads.
    bool allow_leader = false;
  };
  // What all answers of a batch rest on.
  struct Basis {
    absl::Time time;
    int64_t revision = 0;
  };
  struct Summary {
    int simulated = 0;
    int refused = 0;
    absl::Duration cpu;
  };
  // Who asked: is told on the strand.
  class Asker {
   public:
    virtual ~Asker() = default;
    // Of the alternative at `index`, in their order; INVALID_ARGUMENT with the fields that are
    // wrong with what is stored. `read` is to be called once the next answer can be taken, on the
    // strand, at once or later, or never if the asker calls the batch off.
    virtual void Take(int index, absl::StatusOr<Response> response, const Basis& basis,
                      Strand::Task read) = 0;
    // All is answered. The last that it is told.
    virtual void Done(const Summary& summary, const Basis& basis) = 0;
    // Nothing more is answered; the metadata of LEADS says how many were `judged`. The last that it
    // is told. See SimulationService for the errors.
    virtual void Failed(const absl::Status& why) = 0;
  };

  // All outlive it. `beside` is where simulations are made and run: for these alone.
  BatchSimulations(const CoreConfig& config, const Options& options, CommittedView* view,
                   Strand* strand, Strand* beside, const CpuClock* cpu, metrics::Registry* metrics);
  // What is open fails as UNAVAILABLE.
  ~BatchSimulations() override;
  BatchSimulations(const BatchSimulations&) = delete;
  BatchSimulations& operator=(const BatchSimulations&) = delete;

  // Once the view is ready. May tell the asker that it failed before it returns.
  void Simulate(Batch batch, std::shared_ptr<Asker> asker);
  // The asker is told nothing more; of its batch only an alternative that is under way is finished.
  void CallOff(const Asker* asker);
  // Whether this replica leads; until it is said, it does not.
  void SetLeading(bool leading);

 private:
  struct Running {
    Batch batch;
    // Null once it was called off, or failed.
    std::shared_ptr<Asker> asker;
    // While the state is copied.
    absl::optional<StateCopy> copy;
    // Once it is.
    std::shared_ptr<SharedState> state;
    Now copied;
    int64_t revision = 0;
    // Alternatives that are judged.
    size_t next = 0;
    // The last answer is not read.
    bool unread = false;
    Summary summary;
  };
  struct Waiting {
    Batch batch;
    std::shared_ptr<Asker> asker;
  };

  void JobsChanged(const std::set<std::string>& uids) override;
  void NodesChanged(const std::set<NodeId>&) override {}
  void Closing() override;

  bool IsRefused(const Batch& batch) const { return leading_ && !batch.allow_leader; }
  // Whatever is to be done next.
  void GoOn();
  // Goes on by a piece of the copy. It has taken so much before.
  void CopyOn(BootTime begun, absl::Duration taken);
  void Judge();
  void Answered(absl::StatusOr<Response> response);
  // A piece of work is over.
  void Worked(BootTime begun, absl::Duration cpu);
  // What is under way is finished for nobody.
  void FailRunning(const absl::Status& why);
  void FailAll(const absl::Status& why);
  // Nothing is owed to the batch any more.
  void DropRunning();
  void CancelTimer(Strand::TimerId* timer);

  const CoreConfig config_;
  const Options options_;
  CommittedView* const view_;
  Strand* const strand_;
  Strand* const beside_;
  const CpuClock* const cpu_;
  metrics::Counter cpu_seconds_;
  metrics::Counter alternatives_;
  CpuBudget budget_;
  bool leading_ = false;
  absl::optional<Running> running_;
  // A piece of it is being worked on.
  bool is_working_ = false;
  std::deque<Waiting> waiting_;
  // For the budget, and for an answer to be read.
  Strand::TimerId budget_timer_ = 0;
  Strand::TimerId unread_timer_ = 0;
  // Says which batch is meant by what comes late.
  int64_t batches_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_BATCH_SIMULATIONS_H_
