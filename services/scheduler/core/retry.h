#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_RETRY_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_RETRY_H_

#include <string>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// Exit code by which a program says that it found MASTER_PORT in use (docs/task_contract.md).
inline constexpr int kExitPortTaken = 98;
// After so many uncounted restarts in a row for a taken port, the next ones are counted: something
// else than bad luck holds the port.
inline constexpr int kMaxPortStreak = 10;

// What follows a generation that has ended without success.
struct RetryDecision {
  // False: the Job has failed.
  bool again = false;
  // Whether the restart counts towards max_restarts.
  bool counted = false;
  // Wait before the next placement.
  absl::Duration back_off;
  // Typed reason for the Job: TASK_FAILED, PREPARE_FAILED, RETRY_RULE, NODE_LOST, PORT_TAKEN,
  // SHUTDOWN.
  std::string reason;
  // What kind of end it was, `EXITED 3`, if the program may be to blame: the next of the same kind
  // waits longer.
  std::string signature;
  // For how long the next generations stay off the Node where that was.
  absl::Duration avoid_node_for = absl::ZeroDuration();
};

// Decides from the ends of a generation. A lost Node, a fenced Task, a port taken and an
// unasked-for stop (a shutdown of the platform) are never counted; when such an end is among
// others, the others followed from it.
RetryDecision DecideRetry(const JobEntry& job);

// Whether the gang is being ended for a failure after which it starts again without a wait: the
// room of its ended Tasks is kept for it until all of it has ended, or whoever is next would take
// it piece by piece and the gang could not come back.
bool ReturnsAtOnce(const JobEntry& job);

// The typed reason of one Task's end, and the end in words: `exited with code 3`.
std::string EndInWords(const capstan::type::v1::TaskEnd& end);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_RETRY_H_
