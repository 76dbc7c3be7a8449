#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_DATA_FOLDER_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_DATA_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"

namespace capstan::dev {

// A platform's data folder, owned by this process through an exclusive flock on `<folder>/lock` for
// as long as the object lives. Others may enter the folder (0711) to reach the socket in `run` and
// `endpoints.json`; everything else below is the owner's alone.
class DataFolder {
 public:
  // Makes what is missing. FAILED_PRECONDITION with reason PLATFORM_RUNNING if another process owns
  // it, INVALID_ARGUMENT if its path is too long for the sockets in it.
  static absl::StatusOr<DataFolder> Own(const std::string& path);

  const std::string& path() const { return path_; }

 private:
  DataFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;
};

// There from the beginning of a restore of the platform to its end (`capstan admin restore`).
std::string UnfinishedRestoreFile(const std::string& data_dir);
// FAILED_PRECONDITION with RESTORE_UNFINISHED: why nothing may start in a folder that has it.
absl::Status UnfinishedRestore(const std::string& data_dir);

// Makes the parts' folders, those of `config`.
absl::Status MakePartFolders(const std::string& data_dir, const cli::v1::PlatformConfig& config);

// The endpoints kept in the folder, of the parts that `config` has, on its host, with ports chosen
// for parts that have none yet: free ones below the range the kernel gives out by itself, so that a
// restart finds them free again. A port that is kept but taken by a stranger is replaced if
// `may_replace`. Stores the result.
absl::StatusOr<cli::v1::Endpoints> KeepEndpoints(const std::string& data_dir,
                                                 const cli::v1::PlatformConfig& config,
                                                 bool may_replace);

// Replaces `endpoints.json`.
absl::Status StoreEndpoints(const std::string& data_dir, const cli::v1::Endpoints& endpoints);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_DATA_FOLDER_H_
