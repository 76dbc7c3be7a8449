#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_RESTORED_RECORD_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_RESTORED_RECORD_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan::scheduler {

// More generations than any Job begins between a backup and its restore.
inline constexpr int64_t kGenerationsUnknownToABackup = 1'000'000;

// More than any Job begins, however often it is restored: a record that has more is damaged, and
// counting on from it would overflow.
inline constexpr int64_t kMaxGeneration = std::numeric_limits<int64_t>::max() / 2;

// Makes a record of a backup fit for a restored store; called for each. What the Jobs did after the
// backup is forgotten: they may have begun generations that executors, Outputs and Tasks know and
// the store does not. So that none of them is begun a second time, a Job's next one is far above.
void PrepareRestoredRecord(absl::string_view key, std::string* value);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_RESTORED_RECORD_H_
