#include "services/node_agent/adapters/event_thread.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace capstan::node_agent {
namespace {

constexpr int kTickMs = 20;
constexpr int kMaxEvents = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<EventThread>> EventThread::Create(const std::string& name) {
  std::unique_ptr<EventThread> self(new EventThread());
  self->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  self->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!self->epoll_.valid() || !self->wake_.valid()) return ErrnoStatus(errno, "epoll", name);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = self->wake_.get();
  if (epoll_ctl(self->epoll_.get(), EPOLL_CTL_ADD, self->wake_.get(), &event) != 0) {
    return ErrnoStatus(errno, "epoll_ctl", name);
  }
  EventThread* raw = self.get();
  self->thread_ = std::thread([raw, name] { raw->Loop(name); });
  return self;
}

void EventThread::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void EventThread::Post(absl::AnyInvocable<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(task));
  }
  eventfd_write(wake_.get(), 1);
}

absl::Status EventThread::Watch(int fd, std::function<void()> on_readable) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return ErrnoStatus(errno, "epoll_ctl", "");
  }
  watched_[fd] = std::move(on_readable);
  return absl::OkStatus();
}

void EventThread::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventThread::Loop(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  while (true) {
    epoll_event events[kMaxEvents];
    const int n = epoll_wait(epoll_.get(), events, kMaxEvents, ticking_ ? kTickMs : -1);
    eventfd_t ignored;
    eventfd_read(wake_.get(), &ignored);
    std::deque<absl::AnyInvocable<void()>> tasks;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      tasks.swap(queue_);
    }
    for (int i = 0; i < n; ++i) {
      // An earlier callback may have unwatched it.
      const auto it = watched_.find(events[i].data.fd);
      if (it == watched_.end()) continue;
      const std::function<void()> on_readable = it->second;
      on_readable();
    }
    while (!tasks.empty()) {
      absl::AnyInvocable<void()> task = std::move(tasks.front());
      tasks.pop_front();
      task();
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    if (ticking_ && tick_) tick_();
  }
}

}  // namespace capstan::node_agent
