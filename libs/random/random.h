#ifndef CAPSTAN_LIBS_RANDOM_RANDOM_H_
#define CAPSTAN_LIBS_RANDOM_RANDOM_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace capstan {

// Capstan's random engine: xoshiro256** by Blackman and Vigna (prng.di.unimi.it), seeded by
// SplitMix64. The same seed gives the same numbers on every machine and in every version, which the
// standard library's distributions do not promise. Not for secrets: those come from OpenSSL.
// Owned by one thread.
class Random {
 public:
  explicit Random(uint64_t seed);

  uint64_t Next();
  // Uniform in [0, bound); `bound` > 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [low, high]; low <= high.
  int64_t Between(int64_t low, int64_t high);
  // Uniform in [low, high).
  absl::Duration Between(absl::Duration low, absl::Duration high);
  // True with probability numerator / denominator.
  bool OneIn(uint64_t denominator) { return Below(denominator) == 0; }
  // RFC 9562 version 4, lower case.
  std::string Uuid4();

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_RANDOM_RANDOM_H_
