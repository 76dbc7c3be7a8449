#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_READINESS_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_READINESS_H_

#include <string>

#include "absl/time/time.h"

namespace capstan::dev {

enum class Readiness {
  // Nobody answers.
  kDown,
  // It answers that it can't do its work yet.
  kNotReady,
  kReady,
};

struct ReadinessAnswer {
  Readiness readiness = Readiness::kDown;
  // Why it is not ready, in the part's words.
  std::string reason;
};

// Asks `/readyz` at `127.0.0.1:<port>`; waits at most `time_out` for the whole answer.
ReadinessAnswer AskReadiness(const std::string& metrics_address, absl::Duration time_out);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_READINESS_H_
