#include "services/scheduler/core/time_words.h"

namespace capstan::scheduler {

std::string TimeInWords(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

}  // namespace capstan::scheduler
