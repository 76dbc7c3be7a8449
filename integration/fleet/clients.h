#ifndef CAPSTAN_INTEGRATION_FLEET_CLIENTS_H_
#define CAPSTAN_INTEGRATION_FLEET_CLIENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "integration/platform/test_platform.h"
#include "libs/time/system_clock.h"
#include "tools/capstan/cli/command_loop.h"

namespace capstan::integration {

// Programs that use a platform beside a test, all at once and over gRPC, as the CLI does but without
// a process for each call: some make Jobs, Queues and Datasets and read them back, some list what
// there is, one watches all Jobs, and one follows the log of a Task that counts aloud. Every call
// has 30 s for its retries.
//
// The platform must run and outlive them. Failures are GoogleTest's, told by FinishAndCheck.
class Clients {
 public:
  // What the counting rank's Job is called.
  static constexpr char kTalker[] = "talker";

  explicit Clients(TestPlatform* platform);
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Rounds that every program at work has ended.
  int64_t Rounds() const;

  // Lets all end, and fails if a call was lost, if anything that was made is missing or there
  // twice, if the watch has missed a Job, or if the log has a gap, or a line twice.
  void FinishAndCheck();

 private:
  // One program: makes its calls, and says whether to go on.
  class Program;
  using Round = std::function<void(Program&, int64_t round)>;

  void Begin(const std::string& name, Round round);
  void EndPrograms();
  void EndStreams();
  void MakeJobs(Program& program, int64_t round);
  void MakeQueuesAndDatasets(Program& program, int64_t round);
  void ListAll(Program& program, int64_t round);
  void WatchJobs();
  void FollowLog();
  void Lost(absl::string_view what, const absl::Status& why);
  void Made(absl::string_view kind, const std::string& name, const std::string& uid,
            const std::string& uid_again);
  // Of what was made of a kind: all of it is in `found`, once, with its uid, and no other.
  template <typename Resource>
  void CheckMade(absl::string_view kind, const absl::StatusOr<std::vector<Resource>>& found);
  void CheckAllMade(Program& program);
  // The streams go on, and have told of everything.
  void CheckStreams();

  TestPlatform* const platform_;
  const SystemClock clock_;
  absl::Notification stop_;
  std::vector<std::thread> programs_;
  // Streams go on until they are told.
  std::vector<std::thread> streams_;
  std::unique_ptr<cli::CommandLoop> watch_;
  std::unique_ptr<cli::CommandLoop> log_;

  mutable absl::Mutex mutex_;
  std::map<std::string, int64_t> rounds_ ABSL_GUARDED_BY(mutex_);
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> lost_ ABSL_GUARDED_BY(mutex_);
  // By kind, uids by name.
  std::map<std::string, std::map<std::string, std::string>> made_ ABSL_GUARDED_BY(mutex_);
  // Names of Jobs that the watch has told of.
  std::set<std::string> seen_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_FLEET_CLIENTS_H_
