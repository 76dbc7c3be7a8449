// What Tasks have witnessed, and what must be true of it whatever was killed or stopped.
#ifndef CAPSTAN_INTEGRATION_PLATFORM_WITNESS_LOG_H_
#define CAPSTAN_INTEGRATION_PLATFORM_WITNESS_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/time/clock.h"

namespace capstan::integration {

// One line of a witness file; see witness_main.cc.
struct Testimony {
  std::string what;
  int64_t generation = 0;
  int rank = 0;
  BootTime time;
  int64_t step = 0;
};

// The life of one process group as witnessed: from its first line to its last, orphans included.
struct Life {
  BootTime first;
  BootTime last;
  int starts = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  bool ended = false;
};

class WitnessLog {
 public:
  // INVALID_ARGUMENT for a line that is none; an unfinished last one is left out.
  static absl::StatusOr<WitnessLog> Parse(absl::string_view text);

  const std::vector<Testimony>& lines() const { return lines_; }
  // By generation and rank.
  const std::map<std::pair<int64_t, int>, Life>& lives() const { return lives_; }
  // Lines of one kind, of a generation (0: any) and a rank (-1: any).
  int Count(absl::string_view what, int64_t generation = 0, int rank = -1) const;
  int64_t last_generation() const;
  // Highest step of a line of this kind in a generation below `generation`; 0 if none.
  int64_t HighestBefore(absl::string_view what, int64_t generation) const;

  // Everything that must never be, one sentence each: a second start of a generation's rank, two
  // generations alive at once, a generation that did not go on after the last committed step (or
  // after one whose commit had been asked for, if nobody lived to hear the answer).
  std::vector<std::string> Violations() const;

 private:
  std::vector<Testimony> lines_;
  std::map<std::pair<int64_t, int>, Life> lives_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_WITNESS_LOG_H_
