#ifndef CAPSTAN_TOOLS_TESTENV_GCS_SERVER_H_
#define CAPSTAN_TOOLS_TESTENV_GCS_SERVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/testenv/planned_server.h"

namespace capstan::testenv {

// fake-gcs-server, which speaks the JSON API of Google Cloud Storage, of a test's own. Without TLS,
// and without any authentication. Ends, with its data, when destroyed or when the test dies. For one
// thread, which must outlive it. A test that uses it has //tools/testenv:fake_gcs_server_home as
// data, and is tagged manual and needs:gcs.
class GcsServer {
 public:
  // NOT_FOUND or UNAVAILABLE, with what to do, if it does not start.
  static absl::StatusOr<std::unique_ptr<GcsServer>> Start();

  // `http://127.0.0.1:<port>`.
  std::string endpoint() const { return server_->endpoint("gcs"); }
  std::string project() const { return server_->value("project"); }

  // Makes an empty bucket and returns its name: one a test.
  absl::StatusOr<std::string> CreateBucket();

  // SIGKILL, SIGSTOP and SIGCONT; Restart starts it again with what it had on disk.
  void Kill();
  void Stop();
  void Continue();
  absl::Status Restart();

 private:
  explicit GcsServer(std::unique_ptr<PlannedServer> server) : server_(std::move(server)) {}

  const std::unique_ptr<PlannedServer> server_;
  int buckets_ = 0;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_GCS_SERVER_H_
