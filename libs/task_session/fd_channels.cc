#include "libs/task_session/fd_channels.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::task_session {

using telemetry::v1::TaskSessionFrame;

namespace {

void MakeNonBlocking(int fd) {
  if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

FdChannels::FdChannels(Callbacks callbacks)
    : callbacks_(std::move(callbacks)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  thread_ = std::thread([this] { Run(); });
}

FdChannels::~FdChannels() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Post([] {});
  thread_.join();
}

void FdChannels::Post(absl::AnyInvocable<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

int64_t FdChannels::bytes_read() const {
  absl::MutexLock lock(&mutex_);
  return bytes_read_;
}

int64_t FdChannels::bytes_written() const {
  absl::MutexLock lock(&mutex_);
  return bytes_written_;
}

void FdChannels::OnDrained(absl::AnyInvocable<void()> task) {
  Post([this, task = std::move(task)]() mutable { drained_.push_back(std::move(task)); });
}

void FdChannels::Add(int32_t number, UniqueFd read, UniqueFd write, bool shared) {
  Post([this, number, read = std::move(read), write = std::move(write), shared]() mutable {
    if (!book_.Open(number)) return;
    next_ = std::max(next_, number + 1);
    Channel& channel = NewChannel(number);
    channel.read = std::move(read);
    channel.write = std::move(write);
    channel.shared = shared;
    if (!shared) {
      MakeNonBlocking(channel.read.get());
      MakeNonBlocking(channel.write.get());
    }
    if (channel.read.valid()) return;
    channel.eof = true;
    if (auto end = book_.End(number)) Send(*std::move(end));
  });
}

void FdChannels::OpenTo(UniqueFd connection, int32_t port) {
  Post([this, connection = std::move(connection), port]() mutable {
    const int32_t number = next_;
    if (!book_.Open(number)) return;
    ++next_;
    Channel& channel = NewChannel(number);
    MakeNonBlocking(connection.get());
    channel.write = UniqueFd(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
    channel.read = std::move(connection);
    TaskSessionFrame frame;
    frame.mutable_open()->set_channel(number);
    frame.mutable_open()->set_port(port);
    Send(std::move(frame));
  });
}

void FdChannels::Listen(UniqueFd socket, int32_t port) {
  Post([this, socket = std::move(socket), port]() mutable {
    MakeNonBlocking(socket.get());
    listeners_.push_back({std::move(socket), port});
  });
}

void FdChannels::Receive(TaskSessionFrame frame) {
  Post([this, frame = std::move(frame)] { Handle(frame); });
}

void FdChannels::Send(TaskSessionFrame frame) {
  if (!over_ && !callbacks_.send(std::move(frame)).ok()) over_ = true;
}

void FdChannels::Handle(const TaskSessionFrame& frame) {
  if (over_) return;
  if (frame.has_open() && !callbacks_.connect) {
    over_ = true;
    return callbacks_.broken(absl::InvalidArgumentError("the peer may open no channel"));
  }
  bool late = false;
  const absl::Status taken = book_.Receive(frame, &late);
  if (!taken.ok()) {
    over_ = true;
    return callbacks_.broken(taken);
  }
  if (late) return;
  if (frame.has_open()) {
    const int32_t number = frame.open().channel();
    next_ = std::max(next_, number + 1);
    absl::StatusOr<UniqueFd> connection = callbacks_.connect(frame.open().port());
    if (!connection.ok()) return GiveUp(number, std::string(connection.status().message()));
    Channel& channel = NewChannel(number);
    MakeNonBlocking(connection->get());
    channel.write = UniqueFd(fcntl(connection->get(), F_DUPFD_CLOEXEC, 0));
    channel.read = *std::move(connection);
    return;
  }
  const int32_t number = frame.has_data()                               ? frame.data().channel()
                         : frame.has_failure()                          ? frame.failure().channel()
                         : frame.frame_case() == TaskSessionFrame::kEnd ? frame.end()
                                                                        : -1;
  const auto it = channels_.find(number);
  if (it == channels_.end()) return;
  if (frame.has_data()) {
    it->second.waiting.push_back(frame.data().data());
    WriteTo(number, it->second);
  } else if (frame.has_failure()) {
    Forget(number);
  } else {
    it->second.ended_there = true;
    if (it->second.waiting.empty()) CloseWrite(it->second);
  }
}

FdChannels::Channel& FdChannels::NewChannel(int32_t number) {
  was_busy_ = true;
  return channels_[number];
}

void FdChannels::CloseWrite(Channel& channel) {
  // For a socket this ends the direction while the other goes on; others say ENOTSOCK.
  if (channel.write.valid()) shutdown(channel.write.get(), SHUT_WR);
  channel.write.Reset(-1);
}

void FdChannels::GiveUp(int32_t number, const std::string& why) {
  if (auto frame = book_.Fail(number, why)) Send(*std::move(frame));
  Forget(number);
}

void FdChannels::Forget(int32_t number) {
  const auto it = channels_.find(number);
  if (it == channels_.end()) return;
  const bool read = !it->second.eof;
  channels_.erase(it);
  if (read && callbacks_.eof) callbacks_.eof(number);
}

void FdChannels::ReadFrom(int32_t number, Channel& channel) {
  const size_t room = std::min(book_.Room(number), kFrameBytes);
  if (room == 0) return;
  std::string data(room, '\0');
  const ssize_t got = read(channel.read.get(), data.data(), data.size());
  if (got < 0 && WouldBlock()) return;
  // A terminal whose other side was closed says EIO.
  if (got <= 0 && (got == 0 || errno == EIO)) {
    channel.eof = true;
    channel.read.Reset(-1);
    if (auto end = book_.End(number)) Send(*std::move(end));
    if (callbacks_.eof) callbacks_.eof(number);
    return;
  }
  if (got < 0) return GiveUp(number, strerror(errno));
  data.resize(static_cast<size_t>(got));
  {
    absl::MutexLock lock(&mutex_);
    bytes_read_ += got;
  }
  Send(book_.Send(number, std::move(data)));
}

void FdChannels::WriteTo(int32_t number, Channel& channel) {
  size_t consumed = 0;
  while (!channel.waiting.empty()) {
    std::string& front = channel.waiting.front();
    ssize_t put = static_cast<ssize_t>(front.size());
    if (channel.write.valid()) {
      // A descriptor that others share may block: it takes what poll(2) promised, a page.
      const size_t most = channel.shared ? std::min<size_t>(front.size(), 4096) : front.size();
      put = write(channel.write.get(), front.data(), most);
      if (put < 0 && WouldBlock()) break;
    }
    // Nobody reads any more: the peer should hear of it, as the writer of a closed pipe does.
    if (put < 0) return GiveUp(number, strerror(errno));
    consumed += static_cast<size_t>(put);
    front.erase(0, static_cast<size_t>(put));
    if (front.empty()) channel.waiting.pop_front();
    if (channel.shared && channel.write.valid()) break;
  }
  if (consumed > 0) {
    {
      absl::MutexLock lock(&mutex_);
      bytes_written_ += static_cast<int64_t>(consumed);
    }
    if (auto credit = book_.Consumed(number, consumed)) Send(*std::move(credit));
  }
  if (channel.waiting.empty() && channel.ended_there) CloseWrite(channel);
}

void FdChannels::Accept(const Listener& listener) {
  UniqueFd connection(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.valid()) callbacks_.accepted(std::move(connection), listener.port);
}

void FdChannels::RunTasks() {
  uint64_t count = 0;
  (void)!read(wake_.get(), &count, sizeof count);
  std::deque<absl::AnyInvocable<void()>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void FdChannels::DropFinished() {
  for (auto it = channels_.begin(); it != channels_.end();) {
    const bool done = it->second.eof && it->second.ended_there && it->second.waiting.empty();
    it = done ? channels_.erase(it) : std::next(it);
  }
  const bool waits = std::any_of(channels_.begin(), channels_.end(), [](const auto& channel) {
    return !channel.second.waiting.empty();
  });
  if (!waits) {
    for (auto& task : std::exchange(drained_, {})) task();
  }
  const bool busy = !channels_.empty();
  if (was_busy_ && !busy && callbacks_.idle) callbacks_.idle();
  was_busy_ = busy;
}

void FdChannels::Run() {
  // A closed pipe is an error of write(2) here.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
    // What each entry behind the first belongs to: a channel, or -1 for listeners in their order.
    std::vector<int32_t> owners;
    if (book_.open() < kMostChannels) {
      for (const Listener& listener : listeners_) {
        polled.push_back({listener.socket.get(), POLLIN, 0});
        owners.push_back(-1);
      }
    }
    const size_t listening = owners.size();
    for (const auto& [number, channel] : channels_) {
      if (channel.read.valid() && book_.Room(number) > 0) {
        polled.push_back({channel.read.get(), POLLIN, 0});
        owners.push_back(number);
      }
      if (channel.write.valid() && !channel.waiting.empty()) {
        polled.push_back({channel.write.get(), POLLOUT, 0});
        owners.push_back(number);
      }
    }
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      if (i <= listening) {
        if (book_.open() < kMostChannels) Accept(listeners_[i - 1]);
        continue;
      }
      const auto it = channels_.find(owners[i - 1]);
      if (it == channels_.end()) continue;
      if ((polled[i].events & POLLOUT) != 0) {
        WriteTo(it->first, it->second);
      } else if (it->second.read.valid()) {
        ReadFrom(it->first, it->second);
      }
    }
    if (polled[0].revents != 0) RunTasks();
    DropFinished();
  }
}

}  // namespace capstan::task_session
