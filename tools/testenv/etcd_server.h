#ifndef CAPSTAN_TOOLS_TESTENV_ETCD_SERVER_H_
#define CAPSTAN_TOOLS_TESTENV_ETCD_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan::testenv {

// A real etcd of a test's own, of one or three members on loopback with their data on disk. Clients
// must show a certificate of its throwaway authority; among themselves the members speak plainly.
// Ends, with its data, when destroyed or when the test dies. For one thread, which must outlive it.
//
//   auto etcd = testenv::EtcdServer::Start({.members = 3});
//   ASSERT_TRUE(etcd.ok()) << etcd.status();
//   store options: (*etcd)->endpoints(), ca_file(), certificate_file(), key_file(), server_name()
//   (*etcd)->Kill(0);
//   ASSERT_TRUE((*etcd)->Restart(0).ok());
class EtcdServer {
 public:
  struct Options {
    int members = 1;
    // Short, so that tests of failures are; leases last 1 s at least with it. See Restart.
    absl::Duration election_timeout = absl::Milliseconds(500);
    // Without fsync a member that was killed has still its data, but a test proves less.
    bool fsync = true;
    // Added to the command line, e.g. `--quota-backend-bytes=…`.
    std::vector<std::string> flags{};
  };

  // NOT_FOUND, with what to do, if the program is not there.
  static absl::StatusOr<std::unique_ptr<EtcdServer>> Start(Options options);
  ~EtcdServer();

  int members() const { return static_cast<int>(members_.size()); }
  // `127.0.0.1:<port>` of each member, for clients.
  std::vector<std::string> endpoints() const;
  std::string ca_file() const { return folder_ + "/ca.pem"; }
  // Of a client.
  std::string certificate_file() const { return folder_ + "/client.pem"; }
  std::string key_file() const { return folder_ + "/client-key.pem"; }
  // The name in every member's certificate.
  std::string server_name() const;
  const std::string& folder() const { return folder_; }

  // SIGKILL.
  void Kill(int member);
  // SIGSTOP and SIGCONT.
  void Stop(int member);
  void Continue(int member);
  bool IsRunning(int member) const { return members_[member].process != nullptr; }
  // Starts a member that was killed, with what it had on disk, and waits until it serves. With most
  // members down it cannot serve: start the others by Begin first.
  absl::Status Restart(int member);
  // The same without waiting.
  absl::Status Begin(int member);
  // Waits until the member, begun before, serves.
  absl::Status WaitReady(int member);

 private:
  struct Member {
    LoopbackPort client_port;
    LoopbackPort peer_port;
    std::unique_ptr<ServerProcess> process{};
  };

  explicit EtcdServer(Options options) : options_(std::move(options)) {}
  absl::Status Prepare();
  std::vector<std::string> Command(int member) const;

  const Options options_;
  std::string folder_;
  std::string binary_;
  std::vector<Member> members_;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_ETCD_SERVER_H_
