#ifndef CAPSTAN_INTEGRATION_SIMULATION_DISK_SITE_H_
#define CAPSTAN_INTEGRATION_SIMULATION_DISK_SITE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/simulation/dataset_sources.h"
#include "integration/simulation/dataset_witness.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "services/data_loader/core/loader_core.h"

namespace capstan::simulation {

// The Site, on a disk that outlives the data_loader's lives, and what fills it: does in simulated
// time what services/data_loader/adapters/load_worker.h does. A part counts once it is journalled;
// a version appears by one rename.
class DiskSite {
 public:
  struct Published {
    std::string digest;
    int64_t total_bytes = 0;
    int64_t source_bytes_read = 0;
  };
  // As those of services/data_loader/ports/site.h.
  struct Reports {
    std::function<void(const std::string& load, int64_t total_bytes)> planned;
    std::function<void(const std::string& load, int64_t loaded_bytes, int64_t source_bytes_read)>
        progressed;
    std::function<void(const std::string& load)> publishing;
    std::function<void(const std::string& load, const absl::StatusOr<Published>& result)> done;
  };

  // `records` is the disk of the data_loader, of whose room the Site has a part.
  DiskSite(Process* process, const Disk* records, const DatasetSources* sources,
           DatasetWitness* witness, const Mutants* mutants)
      : process_(process),
        records_(records),
        sources_(sources),
        witness_(witness),
        mutants_(mutants) {}

  void SetReports(Reports reports) { reports_ = std::move(reports); }
  // The process has ended: what is under way, too.
  void Crash() { running_.clear(); }

  bool is_loading() const { return !running_.empty(); }

  // One that is under way goes on.
  void StartLoad(const data_loader::StartLoad& load);
  void AdmitLoad(const std::string& load, const absl::Status& admitted);
  // What is noted of it is not needed any more.
  void ForgetLoad(const std::string& load);
  void CollectLoads(const std::set<std::string>& kept);
  bool HasVersion(const std::string& digest) const { return versions_.count(digest) != 0; }
  void EvictVersion(const std::string& digest);
  // Some version, for the mutant that does not ask whether it may.
  void EvictAny();

  // Committed copies of what Tasks wrote.
  void AddFolder(const std::string& folder) { folders_.insert(folder); }
  bool HasFolder(const std::string& folder) const { return folders_.count(folder) != 0; }
  void RemoveFolder(const std::string& folder) { folders_.erase(folder); }
  void CollectFolders(const std::set<std::string>& kept);

 private:
  // On disk.
  struct Staged {
    DatasetSources::Content plan;
    // By part: the revision of which it is.
    std::map<int, int64_t> parts;
    // Noted before it is published.
    std::string digest;
    // They are where they were published.
    bool moved = false;
  };
  // An attempt at a load.
  struct Running {
    data_loader::StartLoad load;
    int64_t attempt = 0;
    absl::optional<int64_t> planned_bytes;
    int64_t source_bytes_read = 0;
    int part = 0;
    // Of the part that is read, or -1.
    int64_t revision = -1;
    absl::Duration slowest;
  };
  using Next = void (DiskSite::*)(const std::string& load, Running& running);

  // Goes on with the load after the time that its work takes.
  void Soon(const std::string& load, absl::Duration least, absl::Duration most, Next next);
  void Begin(const std::string& load, Running& running);
  void NextPart(const std::string& load, Running& running);
  void PartRead(const std::string& load, Running& running);
  void PartJournalled(const std::string& load, Running& running);
  void Check(const std::string& load, Running& running);
  void NoteDigest(const std::string& load, Running& running);
  void Publish(const std::string& load, Running& running);
  void PublishLate(const std::string& load, Running& running);
  void Rename(Staged& staged);
  void Done(const std::string& load, const absl::StatusOr<Published>& result);
  absl::Status NotFound(const Running& running) const;
  Published Result(const Running& running, const Staged& staged) const;

  Process* const process_;
  const Disk* const records_;
  const DatasetSources* const sources_;
  DatasetWitness* const witness_;
  const Mutants* const mutants_;
  Reports reports_;
  int64_t attempts_ = 0;
  // By load: of this life.
  std::map<std::string, Running> running_;
  // On disk, by load.
  std::map<std::string, Staged> staged_;
  std::set<std::string> versions_;
  std::set<std::string> folders_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_DISK_SITE_H_
