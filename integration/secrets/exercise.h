#ifndef CAPSTAN_INTEGRATION_SECRETS_EXERCISE_H_
#define CAPSTAN_INTEGRATION_SECRETS_EXERCISE_H_

#include <sys/types.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "integration/platform/command.h"
#include "integration/platform/test_platform.h"
#include "integration/secrets/secret_scan.h"
#include "integration/secrets/span_receiver.h"
#include "libs/rpc/identity.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "services/credentials/testing/stored_authority.h"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan::integration {

// A whole platform through which secrets of every kind go, where they belong and where they do not,
// and a look through all that it has written, shown and left. The platform's folder is `files` in
// the places of sightings. Failures are GoogleTest's; each step may be the last that makes sense,
// which ::testing::Test::HasFatalFailure tells. One thread.
class Exercise {
 public:
  // Names of the platform's parts.
  static const std::vector<std::string>& Parts();

  Exercise();
  ~Exercise();
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  // All of it, to the platform's end.
  void Run();

  const SecretScan& scan() const { return scan_; }
  const std::set<std::string>& planted() const { return planted_; }
  // Of each part, and of a Task's processes: `<who>: <soft> <hard>`.
  const std::vector<std::string>& core_limits() const { return core_limits_; }
  // Paths of cores, one a line.
  const std::string& cores_left() const { return cores_left_; }

 private:
  // Looks for a secret from now on; without a value, a new one. Returns the value.
  std::string Plant(const std::string& name, std::vector<std::string> homes,
                    std::string value = "");
  // What signs it is the secret: the rest says who someone is.
  std::string PlantToken(const std::string& name, const std::string& token);
  // Writes a file outside of the platform's folder.
  std::string OwnFile(const std::string& name, const std::string& bytes);
  // As TestPlatform's, with a file as standard input; what is said is looked at as `cli <words>`.
  CommandResult Capstan(const std::vector<std::string>& words,
                        const std::string& input = "/dev/null");
  // URL of the web server, with its slash.
  std::string Web() const;
  // A person's, Node's, … that credentials has not issued itself.
  std::shared_ptr<rpc::Identity> IdentityOf(const std::string& path);
  absl::Status Join(const std::string& token, const std::string& request);
  // Soft and hard.
  static std::string CoreLimitOf(pid_t pid);

  void StartWebServer();
  void StartPlatform();
  // The steps.
  void PlantKeys();
  void RunJobs();
  void JoinAndMisjoin();
  void LoadFromSignedUrls();
  void GoIntoTheTask();
  void IssueTokens();
  void PutSecretsIntoWrongFields();
  void UpdateWithSecrets();
  void TakeBackups();
  void LookAround();
  void CrashEveryPart();

  const SystemClock clock_;
  SecretScan scan_;
  std::set<std::string> planted_;
  std::vector<std::string> core_limits_;
  std::string cores_left_;
  int identities_ = 0;
  const TemporaryFolder own_;
  SpanReceiver spans_;
  const testenv::LoopbackPort web_port_;
  std::unique_ptr<testenv::ServerProcess> web_;
  std::unique_ptr<TestPlatform> platform_;
  std::unique_ptr<credentials::StoredAuthority> authority_;
  cli::v1::Endpoints endpoints_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_EXERCISE_H_
