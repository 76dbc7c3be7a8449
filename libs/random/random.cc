#include "libs/random/random.h"

#include <bit>
#include <cassert>

#include "absl/strings/str_format.h"

namespace capstan {

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

uint64_t Random::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::Below(uint64_t bound) {
  assert(bound > 0);
  // Rejects the incomplete last interval, so that the result is exactly uniform.
  const uint64_t limit = -bound % bound;
  while (true) {
    const uint64_t value = Next();
    if (value >= limit) return value % bound;
  }
}

int64_t Random::Between(int64_t low, int64_t high) {
  assert(low <= high);
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const uint64_t offset = span == 0 ? Next() : Below(span);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

absl::Duration Random::Between(absl::Duration low, absl::Duration high) {
  if (low >= high) return low;
  return absl::Nanoseconds(
      Between(absl::ToInt64Nanoseconds(low), absl::ToInt64Nanoseconds(high) - 1));
}

std::string Random::Uuid4() {
  const uint64_t high = (Next() & ~uint64_t{0xf000}) | 0x4000;
  const uint64_t low = (Next() & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, (high >> 16) & 0xffff,
                         high & 0xffff, low >> 48, low & 0xffffffffffff);
}

}  // namespace capstan
