#include "integration/simulation/world.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace capstan::simulation {
namespace {

// 2026-01-01T00:00:00Z.
constexpr int64_t kStart = 1'767'225'600;
// Two clocks may differ by twice this.
constexpr int64_t kMaxRate = 900;

}  // namespace

void World::After(absl::Duration delay, std::function<void()> happen) {
  if (over_) return;
  queue_.emplace(std::make_pair(now_ + std::max(delay, absl::ZeroDuration()), next_++),
                 std::move(happen));
}

void World::End() {
  over_ = true;
  std::exchange(queue_, {}).clear();
}

bool World::Step() {
  if (queue_.empty()) return false;
  auto first = queue_.extract(queue_.begin());
  now_ = first.key().first;
  first.mapped()();
  return true;
}

void World::Log(absl::string_view who, absl::string_view what) {
  const std::string line = absl::StrCat(absl::ToInt64Microseconds(now_), " ", who, " ", what, "\n");
  // FNV-1a.
  for (const char c : line) {
    log_hash_ = (log_hash_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  if (print_) std::cerr << line;
}

void World::Violate(const std::string& what) {
  if (violation_.empty()) violation_ = absl::StrCat("at ", absl::FormatDuration(now_), ": ", what);
  Log("VIOLATION", what);
}

MachineClock::MachineClock(World* world)
    : world_(world),
      offset_(absl::Seconds(static_cast<int64_t>(world->random().Below(1'000'000)))),
      rate_ppm_(world->random().Between(-kMaxRate, kMaxRate)) {}

Now MachineClock::At(absl::Duration true_time) const {
  const absl::Duration local = true_time + true_time * rate_ppm_ / 1'000'000;
  return Now{absl::FromUnixSeconds(kStart) + local + wall_step_, BootTime() + offset_ + local};
}

absl::Duration MachineClock::Until(BootTime time) const {
  const absl::Duration local = time - Read().boot;
  if (local <= absl::ZeroDuration()) return absl::ZeroDuration();
  // A microsecond more than the exact quotient, so that the clock has passed `time` by then.
  return local - local * rate_ppm_ / 1'000'000 + local * 2 / 1'000'000 + absl::Microseconds(1);
}

}  // namespace capstan::simulation
