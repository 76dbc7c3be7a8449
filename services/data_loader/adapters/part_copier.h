#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PART_COPIER_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PART_COPIER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/content/part_journal.h"
#include "libs/safe_path/safe_path.h"
#include "services/data_loader/adapters/part_syncer.h"
#include "services/data_loader/adapters/parted_digest.h"
#include "services/data_loader/adapters/staged_file.h"
#include "services/data_loader/core/load_plan.pb.h"
#include "services/data_loader/core/part_plan.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {

// What parts are copied from, and to.
struct CopyPlaces {
  const DataSource* source = nullptr;
  // The folder of the staged files.
  const SafeRoot* staged = nullptr;
  const LoadPlan* plan = nullptr;
  content::PartJournal* journal = nullptr;
};

struct CopyOptions {
  // Parts copied at once.
  int parallel_parts = 4;
  PartSyncer::Limits limits;
};

// Brings the parts of a load to disk, once.
//
// Several threads take one part after the other. The parts that the journal does not have are read
// from the source and written to their place; a PartSyncer makes them durable and notes them. Each
// file is hashed as it grows, from what is read back of it, so that its digest is of what was
// staged, also where an earlier attempt did that.
class PartCopier {
 public:
  // Of noted parts, and of what was read of the source: told on several threads, serially.
  using Progressed = absl::FunctionRef<void(int64_t loaded_bytes, int64_t source_bytes_read)>;

  // Everything must outlive the copier. It ends early with CANCELLED once `stop` is set.
  PartCopier(const CopyPlaces& places, const CopyOptions& options, Progressed progressed,
             const std::atomic<bool>* stop);

  // `parts`: all of the plan's. `source_bytes_read` are those of earlier attempts. The SHA-256 of
  // each file, in the plan's order; all is durable then. After an error, or when stopped, what was
  // copied whole is noted.
  absl::StatusOr<std::vector<std::string>> Run(const std::vector<Part>& parts,
                                               int64_t source_bytes_read);
  int64_t source_bytes_read();

 private:
  // A file of which some is not hashed yet.
  struct GrowingFile {
    GrowingFile(StagedFile opened, int64_t size) : file(std::move(opened)), digest(size) {}
    const StagedFile file;
    PartedDigest digest;
  };

  void Work(const std::vector<Part>& parts, PartSyncer& syncer);
  absl::Status Bring(const Part& part, PartSyncer& syncer);
  // Up to where it is hashed.
  absl::StatusOr<int64_t> Copy(const Part& part, GrowingFile& growing);
  // These bytes of the file are there.
  absl::Status Hash(int32_t file, GrowingFile& growing, int64_t offset, int64_t size);
  absl::StatusOr<std::shared_ptr<GrowingFile>> Open(int32_t file);
  void Noted(int64_t bytes);

  const CopyPlaces places_;
  const CopyOptions options_;
  const Progressed progressed_;
  const std::atomic<bool>* const stop_;
  std::atomic<size_t> next_ = 0;
  absl::Mutex mutex_;
  std::map<int32_t, std::shared_ptr<GrowingFile>> growing_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> digests_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t loaded_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t source_bytes_read_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PART_COPIER_H_
