#include "services/node_agent/adapters/beast_task_sockets.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "services/node_agent/adapters/task_cgroup.h"

namespace capstan::node_agent {
namespace {

const session::TaskId kA{"job", 1, "w", 0};

class TaskSocketsTest : public testing::Test {
 protected:
  TaskSocketsTest() : strand_("test", &clock_) {
    folder_ = "/tmp/capstan_socketXXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    mkdir((folder_ + "/socket").c_str(), 0755);
    Start();
  }
  ~TaskSocketsTest() override {
    sockets_.reset();
    strand_.Stop();
    rmdir((folder_ + "/socket").c_str());
    rmdir(folder_.c_str());
  }

  void Start() {
    sockets_ = MakeBeastTaskSockets(&strand_);
    sockets_->SetCheckpointCallback([](const session::TaskId&, const std::string& directory,
                                       int64_t step, TaskSockets::Answer answer) {
      if (directory == "drop") return;
      if (directory == "old") {
        return answer(status::Error(absl::StatusCode::kFailedPrecondition, "GENERATION_SUPERSEDED",
                                    "a newer generation has started"));
      }
      if (directory == "bytes") return answer(absl::NotFoundError("no file '\xff'"));
      answer("sha256:" + std::to_string(step));
    });
  }

  // Connects, retrying until the socket is there, and sends; reads until the peer closes.
  std::string Ask(const std::string& request) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ + "/socket/task.sock";
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    UniqueFd fd;
    for (int i = 0; i < 500; ++i) {
      fd = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) break;
      usleep(10'000);
    }
    if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
    std::string answer;
    char buffer[4096];
    for (ssize_t got; (got = read(fd.get(), buffer, sizeof(buffer))) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
    return answer;
  }
  static std::string Post(const std::string& body, const std::string& method = "POST",
                          const std::string& path = "/v1/checkpoints:commit") {
    return method + " " + path +
           " HTTP/1.1\r\nHost: task\r\nConnection: close\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  SystemClock clock_;
  ThreadStrand strand_;
  std::string folder_;
  std::unique_ptr<TaskSockets> sockets_;
};

TEST_F(TaskSocketsTest, AnswersByTheContract) {
  sockets_->Serve(ServeSocket{kA, folder_, 0, {}});
  const std::string ok = Ask(Post("{\"dir\": \"ckpt\", \"step\": 7}"));
  EXPECT_NE(ok.find("200 OK"), std::string::npos) << ok;
  EXPECT_NE(ok.find("\"manifest_digest\":\"sha256:7\""), std::string::npos) << ok;
  const std::string old = Ask(Post("{\"dir\": \"old\", \"step\": 7}"));
  EXPECT_NE(old.find("409"), std::string::npos) << old;
  EXPECT_NE(old.find("GENERATION_SUPERSEDED"), std::string::npos) << old;
  // An error may quote any bytes; the agent once ended by it.
  const std::string bytes = Ask(Post("{\"dir\": \"bytes\", \"step\": 7}"));
  EXPECT_NE(bytes.find("no file '\uFFFD'"), std::string::npos) << bytes;
  const std::string dropped = Ask(Post("{\"dir\": \"drop\", \"step\": 7}"));
  EXPECT_NE(dropped.find("503"), std::string::npos) << dropped;
  EXPECT_NE(dropped.find("Retry-After"), std::string::npos) << dropped;
  EXPECT_NE(Ask(Post("{}", "GET")).find("405"), std::string::npos);
  EXPECT_NE(Ask(Post("{}", "POST", "/v2")).find("404"), std::string::npos);
  for (const char* bad : {"", "[]", "{\"dir\": 1, \"step\": 1}", "{\"dir\": \"a\"}", "{{{",
                          "{\"dir\": \"a\", \"step\": 18446744073709551615}"}) {
    EXPECT_NE(Ask(Post(bad)).find("400"), std::string::npos) << bad;
  }
  EXPECT_NE(Ask(Post(std::string(20'000, 'x'))).find("413"), std::string::npos);
}

TEST_F(TaskSocketsTest, ComesBackAtTheSamePathAfterARestart) {
  sockets_->Serve(ServeSocket{kA, folder_, 0, {}});
  EXPECT_NE(Ask(Post("{\"dir\": \"a\", \"step\": 1}")).find("200"), std::string::npos);
  sockets_.reset();
  Start();
  sockets_->Serve(ServeSocket{kA, folder_, 0, {}});
  EXPECT_NE(Ask(Post("{\"dir\": \"a\", \"step\": 1}")).find("200"), std::string::npos);
}

TEST_F(TaskSocketsTest, PeersThatAreNotOfTheTaskAreRefused) {
  ServeSocket order{kA, folder_, 0, {}};
  order.cgroup.set_v2("/sys/fs/cgroup/capstan/job.1.w-0");
  sockets_->Serve(order);
  EXPECT_EQ(Ask(Post("{\"dir\": \"a\", \"step\": 1}")), "");
}

TEST(InCgroupTest, OnlyTheGroupAndWhatIsBelow) {
  capstan::nodeagent::v1::ShimSpec::Cgroup v2;
  v2.set_v2("/sys/fs/cgroup/unified/capstan/job.1.w-0");
  EXPECT_TRUE(InCgroup("0::/capstan/job.1.w-0\n", v2));
  EXPECT_TRUE(InCgroup("5:freezer:/x\n0::/capstan/job.1.w-0/below\n", v2));
  EXPECT_FALSE(InCgroup("0::/capstan/job.1.w-1\n", v2));
  EXPECT_FALSE(InCgroup("0::/\n", v2));
  EXPECT_FALSE(InCgroup("5:freezer:/capstan/job.1.w-0\n", v2));
  EXPECT_FALSE(InCgroup("", v2));
  // No path: once looked at for ever.
  EXPECT_FALSE(InCgroup("0::capstan\n", v2));
  capstan::nodeagent::v1::ShimSpec::Cgroup v1;
  v1.set_v1_freezer("/sys/fs/cgroup/freezer/capstan/job.1.w-0");
  EXPECT_TRUE(InCgroup("7:freezer:/capstan/job.1.w-0\n0::/\n", v1));
  EXPECT_FALSE(InCgroup("7:memory:/capstan/job.1.w-0\n", v1));
}

}  // namespace
}  // namespace capstan::node_agent
