#ifndef CAPSTAN_LIBS_RANDOM_TIMED_UUID_H_
#define CAPSTAN_LIBS_RANDOM_TIMED_UUID_H_

#include <string>

#include "absl/time/time.h"
#include "libs/random/random.h"

namespace capstan {

// A UUID with milliseconds since 1970 in its first 48 bits, as version 7 of RFC 9562 has them, and
// 74 bits that are random: those made one after the other are near each other where they are
// sorted, as in the pages of a store. Of version 4 all the same, for whoever checks that.
std::string TimedUuid4(Random* random, absl::Time now);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_RANDOM_TIMED_UUID_H_
