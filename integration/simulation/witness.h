#ifndef CAPSTAN_INTEGRATION_SIMULATION_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_WITNESS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/dataset_witness.h"
#include "integration/simulation/mig_witness.h"
#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "libs/session/task_id.h"

namespace capstan::simulation {

// Sees the truth of the world, which no part of Capstan does, and checks at every start, end and
// commit what must always hold:
//  1. no two generations of a Job are live at one moment;
//  2. a Task is started at most once;
//  3. a Task starts only if its generation's START is stored, so all or none of a gang start;
//  4. no Node holds more than it has;
//  5. a generation begins from the newest committed checkpoint, and from then on no older
//  generation
//     commits: the first step is the last committed one + 1;
//  6. the Tasks of a group that must stand on one Node start on one;
//  7. what was acknowledged is stored (checked at the end, for Jobs, cancels and checkpoints);
//  8. what MigWitness says of MIG instances, and DatasetWitness of the data of Jobs.
class Witness {
 public:
  Witness(World* world, const Disk* scheduler_disk)
      : world_(world),
        scheduler_disk_(scheduler_disk),
        mig_(world, scheduler_disk),
        datasets_(world, scheduler_disk) {}

  void Started(const session::TaskId& id, const std::string& machine, int64_t cpu_millis,
               int64_t cpu_limit, int world_size, int64_t resume_step);
  // `finished`: its program had done all its steps and exited 0.
  void Ended(const session::TaskId& id, bool finished);

  MigWitness& mig() { return mig_; }
  DatasetWitness& datasets() { return datasets_; }
  const DatasetWitness& datasets() const { return datasets_; }

  // A checkpoint is durable at the data_loader, whether or not anybody is told so.
  void Committed(const std::string& job_uid, int64_t generation, int64_t step);
  // A Task was told so.
  void CommitAcknowledged(const std::string& job_uid, int64_t generation, int64_t step);
  void JobAcknowledged(const std::string& uid) { jobs_.insert(uid); }
  void CancelAcknowledged(const std::string& uid) { cancels_.insert(uid); }

  // Every Task that ever ran, in the order of starts, on true time.
  struct Life {
    session::TaskId id;
    std::string machine;
    absl::Duration started;
    // Infinite while it runs.
    absl::Duration ended = absl::InfiniteDuration();
    bool finished = false;
  };
  const std::vector<Life>& lives() const { return lives_; }

  const std::set<std::string>& jobs() const { return jobs_; }
  const std::set<std::string>& cancels() const { return cancels_; }
  size_t starts() const { return started_.size(); }
  size_t live() const { return live_.size(); }
  int64_t generations() const { return generations_; }
  // Checkpoints acknowledged and then not found in any later state of the Output.
  int64_t commits() const { return commits_; }

 private:
  // Whether a generation of this Job may have so many Tasks, by its spec.
  bool MayHave(const session::TaskId& id, int tasks) const;
  // Each so many Tasks of its group, from the first on, must share a Node.
  int OnOneNode(const session::TaskId& id) const;

  struct LiveTask {
    std::string machine;
    int64_t cpu_millis = 0;
    size_t life = 0;  // position in lives_
  };

  World* const world_;
  const Disk* const scheduler_disk_;
  MigWitness mig_;
  DatasetWitness datasets_;
  std::set<session::TaskId> started_;
  std::vector<Life> lives_;
  std::map<session::TaskId, LiveTask> live_;
  std::set<std::pair<std::string, int64_t>> gangs_;
  int64_t generations_ = 0;
  int64_t commits_ = 0;
  // Highest generation that has started, and the newest checkpoint, by Job.
  std::map<std::string, int64_t> highest_started_;
  std::map<std::string, int64_t> newest_step_;
  std::map<std::string, std::set<std::pair<int64_t, int64_t>>> durable_;
  std::set<std::string> jobs_;
  std::set<std::string> cancels_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_WITNESS_H_
