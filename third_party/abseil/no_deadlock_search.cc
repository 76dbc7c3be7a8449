// Debian compiles abseil without NDEBUG, so that each lock is entered into a graph in which cycles
// are searched: useful in tests, and a good part of the time of optimised programs. This turns it
// off in those.
#include "absl/synchronization/mutex.h"

namespace {

[[maybe_unused]] const bool kSearchIsOff = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();

}  // namespace
