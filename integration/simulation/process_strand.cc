#include "integration/simulation/process_strand.h"

#include <utility>

#include "absl/time/time.h"

namespace capstan::simulation {

void ProcessStrand::Post(Task task) {
  process_->Later(absl::ZeroDuration(),
                  [task = std::make_shared<Task>(std::move(task))] { (*task)(); });
}

Strand::TimerId ProcessStrand::RunAt(BootTime when, Task task) {
  const TimerId timer = next_timer_++;
  armed_->insert(timer);
  process_->Later(process_->Until(when),
                  [timer, armed = armed_, task = std::make_shared<Task>(std::move(task))] {
                    if (armed->erase(timer) != 0) (*task)();
                  });
  return timer;
}

}  // namespace capstan::simulation
