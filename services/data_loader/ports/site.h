#ifndef CAPSTAN_SERVICES_DATA_LOADER_PORTS_SITE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_PORTS_SITE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/data_loader/core/loader_core.h"

namespace capstan::data_loader {

// A version or Bundle that is whole at the Site.
struct Published {
  std::string manifest_digest;
  int64_t total_bytes = 0;
  int64_t file_count = 0;
  int64_t source_bytes_read = 0;
};

// Takes the content of one Bundle. For one caller at a time; its calls block for the disk. What is
// not finished is removed by the destructor.
class BundleWriter {
 public:
  virtual ~BundleWriter() = default;
  // The next bytes, files one after the other in the manifest's order.
  virtual absl::Status Write(absl::string_view bytes) = 0;
  // INVALID_ARGUMENT if bytes lack, or a file's digest differs; the message names the file.
  virtual absl::StatusOr<Published> Finish() = 0;
};

// Takes what one Task has written. For one caller at a time; its calls block for the disk, but for
// the destructor once all is finished. CollectOutputs leaves alone the copy of a writer that lives:
// whoever brings the copy to the core brings the writer along.
class OutputWriter {
 public:
  virtual ~OutputWriter() = default;
  // The next bytes, files one after the other in the manifest's order.
  virtual absl::Status Write(absl::string_view bytes) = 0;
  // The finished copy, for the core to agree on; whoever does not commit it removes its folder.
  // INVALID_ARGUMENT (OUTPUT_MISMATCH) if bytes lack, or a file's digest differs.
  virtual absl::StatusOr<StagedOutput> Finish() = 0;
};

// Content at the Site that is being read.
struct OpenedContent {
  capstan::dataloader::v1::Manifest manifest;
  // Absolute folder of the files.
  std::string directory;
};

// The place data is brought to: a directory shared by a Cluster's Nodes. Acts only; what counts is
// decided by the core. Methods may be called from the strand and, where said, block; reports and
// callbacks come on the strand. Everything is idempotent, and what a crash leaves is taken up or
// removed.
class Site {
 public:
  // What a load reports, in this order; progress at most twice a second. None after `done`.
  struct LoadReports {
    // Answered by AdmitLoad, for which the load waits; told again if StartLoad is.
    absl::AnyInvocable<void(const std::string& load, int64_t total_bytes)> planned;
    absl::AnyInvocable<void(const std::string& load, int64_t loaded_bytes,
                            int64_t source_bytes_read, double bytes_per_second,
                            absl::optional<absl::Duration> eta)>
        progressed;
    absl::AnyInvocable<void(const std::string& load)> publishing;
    // Errors are that of AdmitLoad, or name the object: OBJECT_NOT_FOUND, SOURCE_CHANGED,
    // SOURCE_TRUNCATED, DISK_FULL, UNSAFE_PATH, SOURCE_NOT_ALLOWED, NOT_A_REGULAR_FILE.
    absl::AnyInvocable<void(const std::string& load, absl::StatusOr<Published> result)> done;
  };

  virtual ~Site() = default;

  // Once, before anything else.
  virtual void SetLoadReports(LoadReports reports) = 0;
  // This process alone acts at the Site from now on: removes what others left unfinished, but for
  // loads, which are taken up.
  virtual absl::Status TakeOver() = 0;
  // Ends what is under way, and begins nothing more. Blocks for the disk; not on the strand.
  virtual void Stop() = 0;
  // Brings a Dataset's files here, whole or not at all. One that is under way goes on.
  virtual void StartLoad(const StartLoad& load) = 0;
  // OK lets a planned load go on; an error ends it.
  virtual void AdmitLoad(const std::string& load, const absl::Status& admitted) = 0;
  // What came of the load is stored: what the Site has noted of it is not needed any more. Until
  // then a load that has published its version, and is started again, finds it and reads nothing.
  virtual void ForgetLoad(const std::string& load) = 0;
  // The same for all but `kept`.
  virtual void CollectLoads(const std::set<std::string>& kept) = 0;

  // Absolute directory of what has been published.
  virtual std::string VersionDirectory(const std::string& manifest_digest) const = 0;
  virtual std::string BundleDirectory(const std::string& manifest_digest) const = 0;
  virtual bool HasVersion(const std::string& manifest_digest) const = 0;
  virtual bool HasBundle(const std::string& manifest_digest) const = 0;
  // Takes a version away: nobody finds it any more when this returns. OK if absent.
  virtual absl::Status EvictVersion(const std::string& manifest_digest) = 0;
  // Opens content by its folder below the Site. Blocks for the disk; not on the strand. DATA_LOSS
  // if its manifest is not that of the digest.
  virtual absl::StatusOr<OpenedContent> OpenContent(const std::string& folder,
                                                    const std::string& manifest_digest) const = 0;
  // `manifest` has been checked (CheckManifest).
  virtual absl::StatusOr<std::unique_ptr<BundleWriter>> ReceiveBundle(
      const capstan::dataloader::v1::Manifest& manifest) = 0;

  // Makes the folder in which the Nodes stage what the generation writes, and removes those of
  // older generations. Returns its absolute path.
  virtual absl::StatusOr<std::string> OpenStaging(const std::string& job_uid,
                                                  int64_t generation) = 0;
  // Copies the staged files to a folder of their own, hashing what is copied, so that nothing that
  // still holds a staged file open can change what was committed. CollectOutputs leaves the copy
  // alone until `done` has returned.
  virtual void CopyOutput(const capstan::dataloader::v1::CommitOutputRequest& request,
                          absl::AnyInvocable<void(absl::StatusOr<StagedOutput>)> done) = 0;
  // Takes the same from a Node that does not share the Site's file system. `manifest` has been
  // checked. Blocks for the disk; not on the strand.
  virtual absl::StatusOr<std::unique_ptr<OutputWriter>> ReceiveOutput(
      const capstan::dataloader::v1::CommitOutputRequest& request,
      const capstan::dataloader::v1::Manifest& manifest) = 0;
  // Removes folders below `outputs/` that are neither staging, nor in `kept`, nor copies of which
  // the strand has yet to hear: no record can name those. On the strand only.
  virtual void CollectOutputs(std::set<std::string> kept) = 0;
  // A committed copy with its manifest.
  virtual void RemoveFolder(const std::string& folder) = 0;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_PORTS_SITE_H_
