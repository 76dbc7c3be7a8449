#ifndef CAPSTAN_LIBS_RPC_OR_ELSE_H_
#define CAPSTAN_LIBS_RPC_OR_ELSE_H_

#include <utility>

#include "libs/strand/strand.h"

namespace capstan::rpc {

// A task for a strand that notices when it is thrown away: a stopping strand destroys what was
// posted, and a call waiting for it must end all the same.
template <typename Run, typename Dropped>
class RunOrElse {
 public:
  RunOrElse(Run run, Dropped dropped) : run_(std::move(run)), dropped_(std::move(dropped)) {}
  RunOrElse(RunOrElse&& other) noexcept
      : run_(std::move(other.run_)),
        dropped_(std::move(other.dropped_)),
        armed_(std::exchange(other.armed_, false)) {}
  RunOrElse& operator=(RunOrElse&&) = delete;
  ~RunOrElse() {
    if (armed_) dropped_();
  }

  void operator()() {
    armed_ = false;
    run_();
  }

 private:
  Run run_;
  Dropped dropped_;
  bool armed_ = true;
};

// Runs `run` when the task runs, else `dropped` when it is destroyed, on the thread that does so.
template <typename Run, typename Dropped>
Strand::Task OrElse(Run run, Dropped dropped) {
  return RunOrElse<Run, Dropped>(std::move(run), std::move(dropped));
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_OR_ELSE_H_
