// A whole platform on this machine for a test: `capstan dev up` as a person would start it, every
// part a process of its own, real ports, real mTLS, real Tasks.
#ifndef CAPSTAN_INTEGRATION_PLATFORM_TEST_PLATFORM_H_
#define CAPSTAN_INTEGRATION_PLATFORM_TEST_PLATFORM_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/platform/command.h"
#include "integration/platform/witness_log.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {

// The processes of a running Task as the machine sees them, found in /proc by the test itself.
struct TaskProcesses {
  dev::ProcessId program;
  dev::ProcessId init;
  dev::ProcessId shim;
};

// What a witness Job is made of; see witness_main.cc.
struct WitnessJob {
  std::string id;
  int ranks = 2;
  int steps = 100;
  absl::Duration step = absl::Milliseconds(50);
  int checkpoint_every = 0;
  bool orphan = false;
  // 0 leaves the default.
  absl::Duration fence_after = absl::ZeroDuration();
  absl::string_view memory = "32Mi";
  // Devices named `slot` for each rank.
  int slots = 0;
  // Clusters that may run it; none names all.
  std::vector<std::string> clusters = {};
};

// One folder under /tmp with the platform's data folder and the witnesses' file. Needs root, since
// Tasks have uids of their own. Failures are GoogleTest's. One thread.
class TestPlatform {
 public:
  // True, or says through GTEST_SKIP's reason why not: `TestPlatform::Unable()`.
  static absl::optional<std::string> Unable();

  // `config`: lines of PlatformConfig in YAML; the witnesses' folder is shared by itself.
  // `program`: the `capstan` to run, from the workspace's root. Does not start anything.
  explicit TestPlatform(absl::string_view config = "",
                        absl::string_view program = "tools/capstan/capstan");
  // Stops what runs, checks that nothing of it is left on the machine, and shows the parts' logs if
  // the test has failed.
  ~TestPlatform();
  TestPlatform(const TestPlatform&) = delete;
  TestPlatform& operator=(const TestPlatform&) = delete;

  // From now on another `capstan`, from the workspace's root; while nothing runs.
  void Use(absl::string_view program);

  const std::string& folder() const { return folder_; }
  const std::string& data_dir() const { return data_dir_; }

  const std::string& config_file() const { return config_file_; }
  // A folder with examples/digits, as plain files.
  std::string CopyOfExample() const;

  // `dev up --detach`, with more arguments.
  void Up(const std::vector<std::string>& arguments = {});
  // `dev down`, with more arguments; afterwards no part runs.
  void Down(std::vector<std::string> arguments = {});

  // Runs `capstan --data-dir … <arguments>` to its end.
  CommandResult Capstan(const std::vector<std::string>& arguments);
  // As Capstan, and the test fails unless it exits with 0; standard output.
  std::string MustCapstan(const std::vector<std::string>& arguments);
  // A command line for dev::Child::Spawn, for what is to go on beside the test.
  std::vector<std::string> CommandLine(const std::vector<std::string>& arguments) const;

  // Submits a gang of witnesses.
  void Submit(const WitnessJob& job);
  // Writes a submit file and submits it.
  CommandResult SubmitText(absl::string_view name, const std::string& yaml);
  scheduler::v1::Job Get(const std::string& job);
  // Waits for a final state, and fails unless it is SUCCEEDED.
  scheduler::v1::Job MustSucceed(const std::string& job);

  // Re-evaluates at each line that a witness writes, and at least every 100 ms. False if it has
  // not come true in time.
  bool Await(const std::function<bool()>& condition, absl::Duration time_out = absl::Seconds(60));
  // Until the Job's `<state> <reason> <generation>` begins so, e.g. `STATE_RUNNING STARTED 1`.
  bool AwaitJob(const std::string& job, const std::string& expected);
  WitnessLog Witnesses() const;
  // Empties the witnesses' file between two Jobs; nobody may be writing it.
  void ForgetWitnesses();
  // True once every part answers that it is ready.
  bool AwaitReady(absl::Duration time_out = absl::Seconds(60));

  // Absent if it does not run.
  absl::optional<dev::ProcessId> Part(absl::string_view part) const;
  void Signal(absl::string_view part, int signal);
  // kill -9, and waits until the supervisor has started it anew.
  void KillAndAwait(absl::string_view part);
  // Absent if no such Task runs.
  absl::optional<TaskProcesses> FindTask(const std::string& job, int64_t generation,
                                         int rank) const;

  // What is left of the platform on the machine, one a line: processes, mounts, cgroups, sockets,
  // run folder.
  std::vector<std::string> Leftovers() const;

 private:
  std::string folder_;
  std::string data_dir_;
  std::string config_file_;
  std::string program_;
  UniqueFd watch_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_TEST_PLATFORM_H_
