#ifndef CAPSTAN_TOOLS_TESTENV_S3_SERVER_H_
#define CAPSTAN_TOOLS_TESTENV_S3_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/testenv/planned_server.h"

namespace capstan::testenv {

// A real server of S3's protocol of a test's own: versitygw, which is truest about checksums, or
// MinIO. Without TLS, with a key of its own. Ends, with its data, when destroyed or when the test
// dies. For one thread, which must outlive it. A test that uses it has
// //tools/testenv:versitygw_home (or minio_home) as data, and is tagged manual and needs:s3.
class S3Server {
 public:
  struct Options {
    // Or "minio".
    std::string server = "versitygw";
  };

  // NOT_FOUND or UNAVAILABLE, with what to do, if it does not start.
  static absl::StatusOr<std::unique_ptr<S3Server>> Start(const Options& options);

  // `http://127.0.0.1:<port>`; buckets are addressed by path.
  std::string endpoint() const { return server_->endpoint("s3"); }
  std::string region() const { return server_->value("region"); }
  const std::string& access_key() const { return access_key_; }
  const std::string& secret_key() const { return secret_key_; }
  // Both, as AWS_SHARED_CREDENTIALS_FILE has them.
  std::string credentials_file() const { return server_->credential("aws"); }

  // Makes an empty bucket and returns its name: one a test.
  absl::StatusOr<std::string> CreateBucket();

  // SIGKILL, SIGSTOP and SIGCONT; Restart starts it again with what it had on disk.
  void Kill() { server_->Kill(name_); }
  void Stop() { server_->Stop(name_); }
  void Continue() { server_->Continue(name_); }
  absl::Status Restart() { return server_->Restart(name_); }

 private:
  S3Server(std::string name, std::unique_ptr<PlannedServer> server)
      : name_(std::move(name)), server_(std::move(server)) {}
  absl::Status ReadKeys();

  const std::string name_;
  const std::unique_ptr<PlannedServer> server_;
  std::string access_key_;
  std::string secret_key_;
  int buckets_ = 0;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_S3_SERVER_H_
