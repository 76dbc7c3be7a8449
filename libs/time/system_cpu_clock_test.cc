#include "libs/time/system_cpu_clock.h"

#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

TEST(SystemCpuClockTest, CountsWhatItsOwnThreadTakes) {
  const SystemCpuClock clock;
  const absl::Duration before = clock.Read();
  // Only what this thread takes ends this.
  while (clock.Read() - before < absl::Milliseconds(5)) {
  }
  const absl::Duration own = clock.Read();
  absl::Duration others;
  std::thread other([&] {
    while (others < own + absl::Milliseconds(200)) others = clock.Read();
  });
  other.join();
  EXPECT_LT(clock.Read(), others) << "what another takes is not counted here";
}

}  // namespace
}  // namespace capstan
