#include "libs/lifecycle/signal_thread.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <utility>

namespace capstan::lifecycle {
namespace {

sigset_t ToSet(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SignalThread>> SignalThread::Create(
    std::vector<int> signals, std::function<void(int)> on_signal) {
  if (signals.empty()) return absl::InvalidArgumentError("no signals to wait for");
  const sigset_t set = ToSet(signals);
  const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (error != 0) return absl::ErrnoToStatus(error, "blocking signals");
  return std::unique_ptr<SignalThread>(new SignalThread(std::move(signals), std::move(on_signal)));
}

SignalThread::SignalThread(std::vector<int> signals, std::function<void(int)> on_signal)
    : signals_(std::move(signals)), on_signal_(std::move(on_signal)), thread_([this] { Loop(); }) {}

SignalThread::~SignalThread() {
  stopping_ = true;
  // Sent to the thread itself, one of its own signals ends its wait; nobody else sees it.
  pthread_kill(thread_.native_handle(), signals_[0]);
  thread_.join();
}

void SignalThread::Loop() {
  const sigset_t set = ToSet(signals_);
  while (true) {
    int signal = 0;
    const int error = sigwait(&set, &signal);
    if (stopping_) return;
    if (error == 0) on_signal_(signal);
  }
}

void UnblockSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGCHLD}) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, nullptr);
}

}  // namespace capstan::lifecycle
