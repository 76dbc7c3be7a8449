#ifndef CAPSTAN_TOOLS_TESTENV_AZURE_SERVER_H_
#define CAPSTAN_TOOLS_TESTENV_AZURE_SERVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/testenv/planned_server.h"

namespace capstan::testenv {

// Azurite, which speaks the protocol of Azure's blobs, of a test's own. Without TLS, with an
// account and a random key of its own. Ends, with its data, when destroyed or when the test dies.
// For one thread, which must outlive it. A test that uses it has //tools/testenv:azurite_home as
// data, and is tagged manual and needs:azure.
class AzureServer {
 public:
  // NOT_FOUND or UNAVAILABLE, with what to do, if it does not start.
  static absl::StatusOr<std::unique_ptr<AzureServer>> Start();

  // `http://127.0.0.1:<port>/<account>`.
  std::string endpoint() const { return server_->endpoint("blob"); }
  std::string account() const { return server_->value("account"); }
  // A connection string, the account's key in it.
  std::string connection_string_file() const { return server_->credential("connection_string"); }

  // Makes an empty container and returns its name: one a test.
  absl::StatusOr<std::string> CreateContainer();

  // SIGKILL, SIGSTOP and SIGCONT; Restart starts it again with what it had on disk.
  void Kill();
  void Stop();
  void Continue();
  absl::Status Restart();

 private:
  explicit AzureServer(std::unique_ptr<PlannedServer> server) : server_(std::move(server)) {}

  const std::unique_ptr<PlannedServer> server_;
  int containers_ = 0;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_AZURE_SERVER_H_
