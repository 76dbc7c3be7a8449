#include "libs/task_session/fd_channels.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace capstan::task_session {
namespace {

using telemetry::v1::TaskSessionFrame;

constexpr absl::Duration kPatience = absl::Seconds(60);

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe MakePipe() {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Something with every byte value and no short period.
std::string Noise(size_t bytes) {
  std::string noise(bytes, '\0');
  uint32_t state = 1;
  for (char& byte : noise) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return noise;
}

void WriteAll(int fd, const std::string& data) {
  for (size_t done = 0; done < data.size();) {
    const ssize_t put = write(fd, data.data() + done, data.size() - done);
    ASSERT_GT(put, 0);
    done += static_cast<size_t>(put);
  }
}

std::string ReadToEnd(int fd) {
  std::string all;
  char buffer[65536];
  ssize_t got;
  while ((got = read(fd, buffer, sizeof buffer)) > 0) all.append(buffer, static_cast<size_t>(got));
  return all;
}

// Two ends that pass their frames to each other, as telemetry does.
class FdChannelsTest : public testing::Test {
 protected:
  FdChannelsTest() {
    here_ = std::make_unique<FdChannels>(Wire(&there_));
    FdChannels::Callbacks callbacks = Wire(&here_);
    callbacks.connect = [this](int32_t port) -> absl::StatusOr<UniqueFd> {
      if (port == 1) return absl::UnavailableError("nobody listens");
      int pair[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
      absl::MutexLock lock(&mutex_);
      served_.emplace_back(pair[1]);
      return UniqueFd(pair[0]);
    };
    auto there = std::make_unique<FdChannels>(std::move(callbacks));
    absl::MutexLock lock(&mutex_);
    there_ = std::move(there);
  }
  ~FdChannelsTest() override {
    // Neither may call the other while it goes.
    {
      absl::MutexLock lock(&mutex_);
      cut_ = true;
    }
    here_.reset();
    there_.reset();
  }

  FdChannels::Callbacks Wire(std::unique_ptr<FdChannels>* peer) {
    FdChannels::Callbacks callbacks;
    callbacks.send = [this, peer](TaskSessionFrame frame) -> absl::Status {
      absl::MutexLock lock(&mutex_);
      if (cut_) return absl::CancelledError("cut");
      if (frame.has_data()) in_flight_ = std::max(in_flight_, frame.data().data().size());
      (*peer)->Receive(std::move(frame));
      return absl::OkStatus();
    };
    callbacks.broken = [](const absl::Status& why) { ADD_FAILURE() << why; };
    callbacks.idle = [this] {
      absl::MutexLock lock(&mutex_);
      ++idle_;
    };
    return callbacks;
  }

  UniqueFd AwaitServed() {
    absl::MutexLock lock(&mutex_);
    const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !served_.empty(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&some), kPatience)) return UniqueFd(-1);
    UniqueFd fd = std::move(served_.front());
    served_.pop_front();
    return fd;
  }
  bool AwaitIdle(int times) {
    absl::MutexLock lock(&mutex_);
    const auto idle = [this, times]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return idle_ >= times; };
    return mutex_.AwaitWithTimeout(absl::Condition(&idle), kPatience);
  }

  absl::Mutex mutex_;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<UniqueFd> served_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FdChannels> here_;
  std::unique_ptr<FdChannels> there_;
};

TEST_F(FdChannelsTest, ManyWindowsPassUnchanged) {
  Pipe in = MakePipe();
  Pipe out = MakePipe();
  here_->Add(0, std::move(in.read), UniqueFd(-1));
  there_->Add(0, UniqueFd(-1), std::move(out.write));
  const std::string sent = Noise(kWindowBytes * 9 + 7);
  std::thread writer([&] {
    WriteAll(in.write.get(), sent);
    in.write.Reset(-1);
  });
  EXPECT_TRUE(ReadToEnd(out.read.get()) == sent);
  writer.join();
  EXPECT_TRUE(AwaitIdle(2));
  EXPECT_EQ(here_->bytes_read(), static_cast<int64_t>(sent.size()));
  EXPECT_EQ(there_->bytes_written(), static_cast<int64_t>(sent.size()));
}

TEST_F(FdChannelsTest, AReaderThatWaitsHoldsUpTheWriterAndNothingElse) {
  Pipe in = MakePipe();
  Pipe out = MakePipe();
  here_->Add(0, std::move(in.read), UniqueFd(-1));
  there_->Add(0, UniqueFd(-1), std::move(out.write));
  fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  // What fits: two pipes and the channel's window.
  const std::string block(4096, 'x');
  size_t taken = 0;
  int refused = 0;
  while (refused < 200) {
    const ssize_t put = write(in.write.get(), block.data(), block.size());
    if (put > 0) {
      taken += static_cast<size_t>(put);
      refused = 0;
    } else {
      ++refused;
      std::this_thread::yield();
    }
    ASSERT_LT(taken, kWindowBytes + (1u << 20)) << "somebody holds it all";
  }
  in.write.Reset(-1);
  EXPECT_EQ(ReadToEnd(out.read.get()).size(), taken);
}

TEST_F(FdChannelsTest, AConnectionsDirectionsEndApart) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  UniqueFd client(pair[0]);
  here_->OpenTo(UniqueFd(pair[1]), 80);
  UniqueFd server = AwaitServed();
  ASSERT_TRUE(server.valid());
  WriteAll(client.get(), "question");
  ASSERT_EQ(shutdown(client.get(), SHUT_WR), 0);
  EXPECT_EQ(ReadToEnd(server.get()), "question") << "the end of the question is seen";
  WriteAll(server.get(), "answer");
  server.Reset(-1);
  EXPECT_EQ(ReadToEnd(client.get()), "answer");
  EXPECT_TRUE(AwaitIdle(2));
}

TEST_F(FdChannelsTest, APortWhereNobodyListensEndsTheConnection) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  UniqueFd client(pair[0]);
  here_->OpenTo(UniqueFd(pair[1]), 1);
  EXPECT_EQ(ReadToEnd(client.get()), "");
}

TEST_F(FdChannelsTest, TheWriterHearsThatNobodyReads) {
  Pipe in = MakePipe();
  Pipe out = MakePipe();
  out.read.Reset(-1);
  here_->Add(0, std::move(in.read), UniqueFd(-1));
  there_->Add(0, UniqueFd(-1), std::move(out.write));
  WriteAll(in.write.get(), "lost");
  EXPECT_TRUE(AwaitIdle(2)) << "the channel is given up at both ends";
}

// As above, but the thread finds the channel and its end in one go.
TEST_F(FdChannelsTest, AChannelThatEndsAtOnceIsToldOf) {
  Pipe out = MakePipe();
  out.read.Reset(-1);
  absl::Notification go;
  there_->Post([&go] { go.WaitForNotification(); });
  there_->Add(0, UniqueFd(-1), std::move(out.write));
  here_->Add(0, UniqueFd(-1), UniqueFd(-1));
  TaskSessionFrame frame;
  frame.mutable_data()->set_channel(0);
  frame.mutable_data()->set_data("lost");
  there_->Receive(frame);
  go.Notify();
  EXPECT_TRUE(AwaitIdle(2));
}

TEST_F(FdChannelsTest, ListensForConnections) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 16), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  absl::Notification came;
  FdChannels::Callbacks callbacks;
  callbacks.send = [](const TaskSessionFrame&) { return absl::OkStatus(); };
  callbacks.broken = [](const absl::Status&) {};
  callbacks.accepted = [&](const UniqueFd& connection, int32_t port) {
    EXPECT_TRUE(connection.valid());
    EXPECT_EQ(port, 80);
    came.Notify();
  };
  FdChannels channels(std::move(callbacks));
  channels.Listen(std::move(listener), 80);
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_TRUE(came.WaitForNotificationWithTimeout(kPatience));
}

TEST(FdChannelsAloneTest, APeerThatBreaksTheRulesIsToldOfOnce) {
  absl::Notification broken;
  FdChannels::Callbacks callbacks;
  callbacks.send = [](const TaskSessionFrame&) { return absl::OkStatus(); };
  callbacks.broken = [&](const absl::Status& why) {
    EXPECT_TRUE(absl::IsInvalidArgument(why));
    broken.Notify();
  };
  FdChannels channels(std::move(callbacks));
  TaskSessionFrame frame;
  frame.mutable_data()->set_channel(7);
  channels.Receive(frame);
  channels.Receive(frame);
  EXPECT_TRUE(broken.WaitForNotificationWithTimeout(kPatience));
}

}  // namespace
}  // namespace capstan::task_session
