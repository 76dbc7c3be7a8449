#ifndef CAPSTAN_INTEGRATION_LOADING_LOADING_SITE_H_
#define CAPSTAN_INTEGRATION_LOADING_LOADING_SITE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "integration/platform/command.h"
#include "integration/platform/test_platform.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan::integration {

// What a load cuts objects into.
inline constexpr int64_t kPartBytes = 8 << 20;
// Parts that are fetched at once.
inline constexpr int kPartsAtOnce = 4;

// Files of a version by path.
using Files = std::map<std::string, std::string>;

// A platform whose data_loader reads a web server with faults (fault_server.py) and a folder, and a
// reader beside it that looks at all that the Site shows while it happens (version_reader.py).
// Failures are GoogleTest's. Needs root. One thread.
class LoadingSite {
 public:
  // `site_size`: what the Site's file system has room for, e.g. `48m`; empty: the disk's.
  explicit LoadingSite(absl::string_view site_size = "");
  // What the reader saw is judged: all of it whole, and expected. Nothing unfinished is left.
  ~LoadingSite();
  LoadingSite(const LoadingSite&) = delete;
  LoadingSite& operator=(const LoadingSite&) = delete;

  TestPlatform& platform() { return *platform_; }
  // `http://127.0.0.1:<port>/`.
  std::string web() const;
  // Folder below which `file://` sources may lie, and one beside it.
  std::string bucket() const { return own_.path() + "/bucket"; }
  std::string outside() const { return own_.path() + "/outside"; }
  // The Site's.
  std::string site() const { return platform_->data_dir() + "/data_loader/site"; }

  // So many bytes that compress badly and differ with the seed.
  static std::string Bytes(size_t size, uint64_t seed);
  // Puts an object on the web server.
  void Serve(const std::string& path, const std::string& bytes);
  // What is wrong with it, as fault_server.py has it: JSON. Empty: nothing any more.
  void SetFault(const std::string& path, const std::string& fault);
  // Content of the object that the server has sent, in all answers together.
  int64_t Served(const std::string& path) const;

  // From now on a version of these files is right; all others that the reader sees are wrong.
  void Expect(const Files& files);

  // Creates a Dataset; no more.
  CommandResult Create(const std::string& dataset, const std::string& source,
                       const std::vector<std::string>& objects = {});
  // Begins its load; the load's id.
  std::string Start(const std::string& dataset, bool again = false);
  // Both.
  std::string StartNew(const std::string& dataset, const std::string& source,
                       const std::vector<std::string>& objects = {});
  dataloader::v1::DataLoad Get(const std::string& load);
  // Waits for its end.
  dataloader::v1::DataLoad Await(const std::string& load);
  // How many parts are journalled; 0 without a journal.
  int64_t PartsKept(const std::string& load) const;
  // Whether a whole version of these files is there.
  bool Has(const Files& files) const;
  // Folders of loads that are not whole.
  std::vector<std::string> Staged() const;

 private:
  const TemporaryFolder own_;
  const testenv::LoopbackPort port_;
  const bool mounted_;
  std::map<std::string, std::string> faults_;
  std::vector<std::string> expected_;
  std::unique_ptr<testenv::ServerProcess> server_;
  std::unique_ptr<testenv::ServerProcess> reader_;
  std::unique_ptr<TestPlatform> platform_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_LOADING_LOADING_SITE_H_
