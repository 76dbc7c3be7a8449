#ifndef CAPSTAN_LIBS_PROCESS_STOP_SIGNAL_H_
#define CAPSTAN_LIBS_PROCESS_STOP_SIGNAL_H_

#include <signal.h>

namespace capstan::process {

// Tells a node agent to end its Tasks, with their grace, before it ends itself. SIGTERM, as for
// every process, leaves them running for the next agent.
inline constexpr int kStopTasksSignal = SIGUSR1;

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_STOP_SIGNAL_H_
