#ifndef CAPSTAN_INTEGRATION_SIMULATION_QUEUE_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_QUEUE_WITNESS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/simulation/world.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {

// Judges what each leading scheduler decides of Queues and of the order of Jobs, by what it writes
// (PlacementWitness reads that) and by what people were told; no core is asked:
//  1. the Tasks of no Queue, with those of the Queues below it, have more CPUs than its guarantee
//     and its borrowing limit together, from when its making was acknowledged: Tasks count from
//     their placement until their end is stored, but for those that are ended for another Job;
//  2. nothing is placed in a Queue that is held or drained, or below one;
//  3. no Job is placed before each that it waits for has ended as asked;
//  4. no request makes two Jobs;
//  5. no Job is placed that is held;
//  6. no Job is ended for another one that may not be, nor, in the term in which its START was
//     decided, before it has run for as long as its Queue says from then on (another leader counts on
//     by its clock on the wall, which somebody may have set);
//  7. no Job is placed for the first time in what a Queue keeps to itself: so much of its guarantee
//     as it does not lend. Counted in CPUs of all Nodes, whatever state they are in.
class QueueWitness {
 public:
  // Label of a Job: the request that made it.
  static constexpr char kRequestLabel[] = "simulated/request";

  // `min_runtime` is what schedulers go by where no Queue says anything.
  QueueWitness(World* world, absl::Duration min_runtime)
      : world_(world), min_runtime_(min_runtime) {}

  // The replica begins to lead with these Jobs.
  void Begin(const std::string& who, const scheduler::Model& model);
  // What a step of its has made of them. `touched`: uids of those that it writes.
  void SawStep(const std::string& who, const scheduler::Model& model,
               const std::set<std::string>& touched);
  // The step of that replica places a generation of the Job.
  void Placed(const std::string& who, const scheduler::Model& model,
              const scheduler::JobEntry& job);

  void QueueAcknowledged(const capstan::scheduler::v1::Queue& queue);

  // Gangs that were placed in a Queue with a limit, and Jobs that came after others.
  int64_t placed_below_limits() const { return placed_below_limits_; }
  int64_t placed_after_others() const { return placed_after_others_; }
  // Of the generations that were ended for another Job, those that had begun. And Jobs that may not
  // be and were placed.
  int64_t ended_for_others() const { return ended_for_others_; }
  int64_t placed_for_good() const { return placed_for_good_; }
  // Jobs that were placed for the first time outside of a Queue that keeps something to itself.
  int64_t placed_beside_lenders() const { return placed_beside_lenders_; }

 private:
  struct Use {
    std::string queue;
    int64_t cpu_millis = 0;
  };
  // Job and generation.
  using Life = std::pair<std::string, int64_t>;
  struct Term {
    std::map<std::string, Use> uses;                // by uid
    std::map<std::string, std::string> by_request;  // uid
    // Those that had begun before, and when others did, in true time.
    std::set<Life> found;
    std::map<Life, absl::Duration> started;
  };
  struct Limits {
    std::string parent;
    absl::optional<int64_t> cpu_millis;
    // Thousandths of CPUs that are not lent.
    int64_t kept_cpu = 0;
  };

  static Use UseOf(const scheduler::JobEntry& job);
  // True if what it uses has changed.
  bool Note(const scheduler::Model& model, const std::string& uid, Term* term);
  void JudgeRequest(const scheduler::JobEntry& job, Term* term);
  void JudgeLimits(const Term& term);
  void JudgeEndForAnother(const scheduler::Model& model, const scheduler::JobEntry& job,
                          Term* term);
  void JudgeLending(const scheduler::Model& model, const scheduler::JobEntry& job,
                    const Term& term);
  // Whether that Queue is the Job's, or above it.
  bool IsOf(const std::string& queue, std::string job_queue) const;

  World* const world_;
  const absl::Duration min_runtime_;
  std::map<std::string, Term> terms_;     // by replica
  std::map<std::string, Limits> limits_;  // by name of the Queue
  std::set<Life> ended_;                  // for another Job
  int64_t placed_below_limits_ = 0;
  int64_t placed_after_others_ = 0;
  int64_t ended_for_others_ = 0;
  int64_t placed_for_good_ = 0;
  int64_t placed_beside_lenders_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_QUEUE_WITNESS_H_
