#ifndef CAPSTAN_INTEGRATION_SIMULATION_PROCESS_STRAND_H_
#define CAPSTAN_INTEGRATION_SIMULATION_PROCESS_STRAND_H_

#include <memory>
#include <set>

#include "integration/simulation/process.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::simulation {

// A strand of one life of a process, on the clock of its machine: what is posted is done as the
// process's next, and never by a later life. One is made in each life, and destroyed with it.
class ProcessStrand final : public Strand {
 public:
  explicit ProcessStrand(Process* process) : process_(process), clock_(process) {}

  void Post(Task task) override;
  TimerId RunAt(BootTime when, Task task) override;
  bool Cancel(TimerId timer) override { return armed_->erase(timer) != 0; }
  const Clock& clock() const override { return clock_; }

 private:
  class ProcessClock final : public Clock {
   public:
    explicit ProcessClock(const Process* process) : process_(process) {}
    Now Read() const override { return process_->Read(); }

   private:
    const Process* const process_;
  };

  Process* const process_;
  const ProcessClock clock_;
  TimerId next_timer_ = 1;
  // Outlives the strand in what the world still has of it.
  const std::shared_ptr<std::set<TimerId>> armed_ = std::make_shared<std::set<TimerId>>();
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_PROCESS_STRAND_H_
