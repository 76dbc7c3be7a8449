#include "libs/rpc/local_server.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/rpc/local_peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo.pb.h"
#include "libs/rpc/testing/echo_server.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::rpc {
namespace {

using testing::EchoMessage;
using testing::EchoServer;
using testing::EchoService;

class LocalServerTest : public ::testing::Test {
 protected:
  LocalServerTest() {
    char folder[] = "/tmp/capstan_local_XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/s";
  }
  ~LocalServerTest() override {
    server_ = nullptr;
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  absl::StatusOr<std::unique_ptr<LocalServer>> StartServer() {
    return LocalServer::Start(
        path_,
        [this](uid_t uid) -> absl::StatusOr<LocalServices> {
          absl::MutexLock lock(&mutex_);
          uids_.push_back(uid);
          auto echo = std::make_shared<EchoServer>(&access_, &strand_);
          return LocalServices{{Registered<EchoService>(echo.get())}, echo};
        },
        [this](const absl::Status& why) {
          absl::MutexLock lock(&mutex_);
          refusals_.push_back(why);
        });
  }

  // A connected socket, or -1.
  int Connect() const {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close(fd);
    return -1;
  }

  absl::Status Echo() {
    const auto stub = EchoService::NewStub(
        grpc::CreateChannel("unix:" + path_, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    EchoMessage request;
    request.set_text("hello");
    EchoMessage response;
    const absl::Status status = FromGrpcStatus(stub->Echo(&context, request, &response));
    if (status.ok()) {
      EXPECT_EQ(response.text(), "hello");
    }
    return status;
  }

  std::vector<absl::Status> AwaitRefusals(size_t n) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return refusals_.size() >= n; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
    return refusals_;
  }

  SystemClock clock_;
  ThreadStrand strand_{"server", &clock_};
  auth::FakeAccess access_;
  std::string folder_;
  std::string path_;
  absl::Mutex mutex_;
  std::vector<uid_t> uids_;
  std::vector<absl::Status> refusals_;
  std::unique_ptr<LocalServer> server_;
};

TEST_F(LocalServerTest, ServesTheUidThatTheKernelNames) {
  server_ = StartServer().value();
  EXPECT_EQ(Echo(), absl::OkStatus());
  EXPECT_EQ(Echo(), absl::OkStatus());
  EXPECT_EQ(uids_, std::vector<uid_t>{geteuid()});
  EXPECT_TRUE(refusals_.empty());
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666u);
}

TEST_F(LocalServerTest, APeerInNamespacesOfItsOwnIsRefused) {
  server_ = StartServer().value();
  const pid_t child = fork();
  if (child == 0) {
    // As a Task without root: a user and PID namespace of its own, the same kernel uid.
    if (unshare(CLONE_NEWUSER) != 0 && unshare(CLONE_NEWPID) != 0) _exit(2);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      const int fd = Connect();
      char byte = 0;
      // Refused means closed.
      _exit(fd >= 0 && read(fd, &byte, 1) == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(grandchild, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no namespaces can be made here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(status::Reason(AwaitRefusals(1)[0]), "LOCAL_PEER_REFUSED");
  EXPECT_TRUE(uids_.empty());
}

TEST_F(LocalServerTest, APeerThatHasEndedIsRefused) {
  // Nothing listens to the connection before its maker has ended.
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  const pid_t child = fork();
  if (child == 0) _exit(Connect() >= 0 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const int fd = accept(listener, nullptr, nullptr);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(absl::IsPermissionDenied(PeerOfSocket(fd).status()));
  close(fd);
  close(listener);
}

TEST_F(LocalServerTest, ADeadSocketIsReplacedAndALiveOneIsNot) {
  server_ = StartServer().value();
  EXPECT_EQ(status::Reason(StartServer().status()), "CANNOT_LISTEN");
  EXPECT_EQ(Echo(), absl::OkStatus());
  server_ = nullptr;
  const int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  ASSERT_EQ(bind(stale, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(stale);
  server_ = StartServer().value();
  EXPECT_EQ(Echo(), absl::OkStatus());
}

TEST_F(LocalServerTest, ServesEachNameApartAndForgetsTheOneThatIsDropped) {
  std::vector<std::string> made;
  int connections = 0;
  LocalServer::Options options;
  options.path = path_;
  // Every other connection is another's.
  options.attest = [&](int) -> absl::StatusOr<std::string> {
    absl::MutexLock lock(&mutex_);
    return connections++ % 2 == 0 ? "even" : "odd";
  };
  options.make = [&](const std::string& peer) -> absl::StatusOr<LocalServices> {
    absl::MutexLock lock(&mutex_);
    made.push_back(peer);
    auto echo = std::make_shared<EchoServer>(&access_, &strand_);
    return LocalServices{{Registered<EchoService>(echo.get())}, echo};
  };
  server_ = LocalServer::Start(std::move(options)).value();
  // Channels of their own, or gRPC would use one connection for both.
  const auto ask = [this](const char* channel) {
    grpc::ChannelArguments arguments;
    arguments.SetString("test.channel", channel);
    const auto stub = EchoService::NewStub(
        grpc::CreateCustomChannel("unix:" + path_, grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    EchoMessage response;
    return FromGrpcStatus(stub->Echo(&context, EchoMessage(), &response));
  };
  EXPECT_EQ(ask("a"), absl::OkStatus());
  EXPECT_EQ(ask("b"), absl::OkStatus());
  server_->Drop("even");
  server_->Drop("nobody");
  EXPECT_EQ(ask("c"), absl::OkStatus());
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(made, (std::vector<std::string>{"even", "odd", "even"}));
}

TEST_F(LocalServerTest, APeerHasOnlySoManyConnectionsAtATime) {
  LocalServer::Options options;
  options.path = path_;
  options.attest = [](int) -> absl::StatusOr<std::string> { return "peer"; };
  options.make = [this](const std::string&) -> absl::StatusOr<LocalServices> {
    auto echo = std::make_shared<EchoServer>(&access_, &strand_);
    return LocalServices{{Registered<EchoService>(echo.get())}, echo};
  };
  options.refused = [this](const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    refusals_.push_back(why);
  };
  options.max_connections = 2;
  server_ = LocalServer::Start(std::move(options)).value();
  const int first = Connect();
  const int second = Connect();
  const int third = Connect();
  EXPECT_TRUE(absl::IsResourceExhausted(AwaitRefusals(1)[0]));
  for (const int fd : {first, second, third}) close(fd);
  // Once gRPC has seen that they are gone there is room again.
  while (!Echo().ok()) {
  }
}

TEST_F(LocalServerTest, PathsThatAreTooLongAreRefused) {
  path_ = folder_ + "/" + std::string(108, 'x');
  EXPECT_EQ(StartServer().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace capstan::rpc
