#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_LOOP_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_LOOP_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"

namespace capstan::cli {

// What a command that follows streams runs on: a strand, on which everything that comes is handled,
// while the command's own thread waits for the end.
//
//   CommandLoop loop(invocation.clock, invocation.random);
//   return loop.Run([&] { Follow(&loop, …, [&](const absl::Status& over) { loop.Done(over); }); });
class CommandLoop {
 public:
  // One followed stream.
  class Stream {
   public:
    virtual ~Stream() = default;
    // Calls nothing back any more. On the strand.
    virtual void Stop() = 0;
  };

  // The clock must outlive the loop; of `random` only a seed is taken.
  CommandLoop(const Clock* clock, Random* random);
  ~CommandLoop();

  // Runs `start` on the strand, and returns what Done was given. What the streams' callbacks refer
  // to is not used after that. Once.
  absl::Status Run(Strand::Task start);

  // The command is done; the first call counts. On the strand.
  void Done(absl::Status status);
  bool done() const { return is_done_; }

  Strand* strand() { return &strand_; }
  // Of the strand.
  Random* random() { return &random_; }
  const Clock* clock() const { return clock_; }

  // For the streams: keeps one until the end; counts the calls under way. On the strand.
  void Keep(std::shared_ptr<Stream> stream) { streams_.push_back(std::move(stream)); }
  void CallOpened();
  void CallClosed();

 private:
  const Clock* const clock_;
  Random random_;
  std::vector<std::shared_ptr<Stream>> streams_;
  bool is_done_ = false;

  absl::Mutex mutex_;
  absl::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);
  int open_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  // Last: its thread uses the rest.
  ThreadStrand strand_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_LOOP_H_
