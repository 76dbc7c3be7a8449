#include "tools/capstan/cli/command_loop.h"

#include <utility>

namespace capstan::cli {
namespace {

// A call that was cancelled is over at once; this only bounds what nobody expects.
constexpr absl::Duration kCloseBound = absl::Seconds(2);

}  // namespace

CommandLoop::CommandLoop(const Clock* clock, Random* random)
    : clock_(clock), random_(random->Next()), strand_("command", clock) {}

CommandLoop::~CommandLoop() { strand_.Stop(); }

absl::Status CommandLoop::Run(Strand::Task start) {
  strand_.Post(std::move(start));
  absl::Status result;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](CommandLoop* loop)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(loop->mutex_) { return loop->result_.has_value(); },
        this));
    // The process may end next: gRPC's threads should have nothing of ours in hand then.
    mutex_.AwaitWithTimeout(absl::Condition(
                                +[](CommandLoop* loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(loop->mutex_) {
                                  return loop->open_calls_ == 0;
                                },
                                this),
                            kCloseBound);
    result = *result_;
  }
  // Timers, too, may refer to what the caller owns.
  strand_.Stop();
  return result;
}

void CommandLoop::Done(absl::Status status) {
  if (is_done_) return;
  is_done_ = true;
  for (const std::shared_ptr<Stream>& stream : streams_) stream->Stop();
  // Callbacks may be in one of the streams now: it goes with the next task.
  strand_.Post([this] { streams_.clear(); });
  absl::MutexLock lock(&mutex_);
  result_ = std::move(status);
}

void CommandLoop::CallOpened() {
  absl::MutexLock lock(&mutex_);
  ++open_calls_;
}

void CommandLoop::CallClosed() {
  absl::MutexLock lock(&mutex_);
  --open_calls_;
}

}  // namespace capstan::cli
