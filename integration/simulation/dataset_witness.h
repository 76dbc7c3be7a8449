#ifndef CAPSTAN_INTEGRATION_SIMULATION_DATASET_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_DATASET_WITNESS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "libs/session/task_id.h"

namespace capstan::simulation {

// Sees what happens to the data of Jobs, and checks at every step that can break it:
//  1. what appears at the Site is whole, and of one revision of its source;
//  2. what an attempt at a load has journalled is not read from its source again;
//  3. a version that is stored as whole is at the Site: it is lost by eviction alone;
//  4. a pin is stored when it is acknowledged, and its version is at the Site;
//  5. no version leaves the Site that is pinned, or that a Task reads;
//  6. a Task starts with all Datasets of its Job, whole at the Site, each as the version that its
//     Job has asked for, and all Tasks of a Job, whatever their generation, with the same;
//  7. a Job that ends for want of its data says why the data_loader could not bring it, and only a
//     Job that asks for what can be had starts;
//  8. once all is over no pin is left.
class DatasetWitness {
 public:
  DatasetWitness(World* world, const Disk* scheduler_disk)
      : world_(world), scheduler_disk_(scheduler_disk) {}

  // Of a load, by the Site.
  void Read(const std::string& load, int part);
  void Journalled(const std::string& load, int part);
  void TakenUp() { ++taken_up_; }
  // What it had staged was removed, since it has failed.
  void Unstaged(const std::string& load) { journalled_.erase(load); }
  // A folder of content has been renamed to its place. `whole`: with all parts of one revision.
  void Appeared(const std::string& digest, bool whole);
  // A folder leaves its place.
  void Leaves(const std::string& digest);

  // By the data_loader's disk, as another life would read it.
  void CheckStored(const Disk& loader_disk);
  // `node`: `<cluster>/<node>`, or empty for all.
  void PinAcknowledged(const std::string& holder, const std::string& node,
                       const std::string& version, const std::string& digest,
                       const Disk& loader_disk);
  void ReleaseAsked(const std::string& holder, const std::string& node);
  void LoadFailed(const std::string& message) { failures_.insert(message); }

  // `folders`: of its Datasets, as its program finds them in its environment.
  void Started(const session::TaskId& id, const std::map<std::string, std::string>& folders);
  void Ended(const session::TaskId& id) { reading_.erase(id); }

  // Where a version lies.
  static std::string Folder(const std::string& digest);
  // Of the Dataset that never has a source.
  static constexpr char kNowhere[] = "projects/p/datasets/nowhere";

  // At the end; if not, says why.
  bool Settled(const Disk& loader_disk, std::string* why) const;

  // Tasks that have begun with a Dataset, versions that have left the Site, and attempts at loads
  // that went on with what an earlier one had journalled.
  int64_t starts() const { return starts_; }
  int64_t evictions() const { return evictions_; }
  int64_t taken_up() const { return taken_up_; }

 private:
  bool IsWhole(const std::string& digest) const { return whole_.count(digest) != 0; }

  World* const world_;
  const Disk* const scheduler_disk_;
  // By load: parts.
  std::map<std::string, std::set<int>> journalled_;
  // Digests of what is at the Site.
  std::set<std::string> whole_;
  // Acknowledged and not asked to be released: by holder and Node, what is held, by version, with
  // its digest.
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::string>> pins_;
  std::map<session::TaskId, std::set<std::string>> reading_;
  // By Job and alias.
  std::map<std::pair<std::string, std::string>, std::string> seen_;
  std::set<std::string> failures_;
  int64_t starts_ = 0;
  int64_t evictions_ = 0;
  int64_t taken_up_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_DATASET_WITNESS_H_
