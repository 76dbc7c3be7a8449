#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_TIME_WORDS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_TIME_WORDS_H_

#include <string>

#include "absl/time/time.h"

namespace capstan::scheduler {

// As people are told it, to the second: 2026-03-01T22:00:00Z.
std::string TimeInWords(absl::Time time);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_TIME_WORDS_H_
