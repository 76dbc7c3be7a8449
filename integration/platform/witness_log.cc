#include "integration/platform/witness_log.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan::integration {

absl::StatusOr<WitnessLog> WitnessLog::Parse(absl::string_view text) {
  WitnessLog log;
  const size_t end = text.rfind('\n');
  if (end == absl::string_view::npos) return log;
  for (const absl::string_view line : absl::StrSplit(text.substr(0, end), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Testimony said;
    int64_t time = 0;
    if (words.size() != 5 || !absl::SimpleAtoi(words[1], &said.generation) ||
        !absl::SimpleAtoi(words[2], &said.rank) || !absl::SimpleAtoi(words[3], &time) ||
        !absl::SimpleAtoi(words[4], &said.step)) {
      return absl::InvalidArgumentError(absl::StrCat("not a witness's line: ", line));
    }
    said.what = words[0];
    said.time = BootTime::FromNanoseconds(time);
    const auto [it, is_new] = log.lives_.try_emplace({said.generation, said.rank});
    Life& life = it->second;
    if (is_new) life.first = life.last = said.time;
    life.first = std::min(life.first, said.time);
    life.last = std::max(life.last, said.time);
    if (said.what == "start") {
      ++life.starts;
      life.first_step = said.step;
    }
    if (said.what == "end") life.ended = true;
    life.last_step = std::max(life.last_step, said.step);
    log.lines_.push_back(std::move(said));
  }
  return log;
}

int WitnessLog::Count(absl::string_view what, int64_t generation, int rank) const {
  return static_cast<int>(std::count_if(lines_.begin(), lines_.end(), [&](const Testimony& said) {
    return said.what == what && (generation == 0 || said.generation == generation) &&
           (rank < 0 || said.rank == rank);
  }));
}

int64_t WitnessLog::last_generation() const {
  return lives_.empty() ? 0 : lives_.rbegin()->first.first;
}

int64_t WitnessLog::HighestBefore(absl::string_view what, int64_t generation) const {
  int64_t highest = 0;
  for (const Testimony& said : lines_) {
    if (said.what == what && said.generation < generation) highest = std::max(highest, said.step);
  }
  return highest;
}

std::vector<std::string> WitnessLog::Violations() const {
  std::vector<std::string> found;
  // First and last word of each generation, over its ranks.
  std::map<int64_t, std::pair<BootTime, BootTime>> spans;
  for (const auto& [key, life] : lives_) {
    const auto& [generation, rank] = key;
    const std::string who = absl::StrCat("generation ", generation, " rank ", rank);
    if (life.starts != 1)
      found.push_back(absl::StrCat(who, " was started ", life.starts, " times"));
    const int64_t expected = HighestBefore("commit", generation) + 1;
    if (life.starts > 0 && life.first_step != expected &&
        life.first_step != HighestBefore("ask", generation) + 1) {
      found.push_back(
          absl::StrCat(who, " began with step ", life.first_step, ", not with ", expected));
    }
    const auto [it, is_new] = spans.try_emplace(generation, life.first, life.last);
    if (is_new) continue;
    it->second.first = std::min(it->second.first, life.first);
    it->second.second = std::max(it->second.second, life.last);
  }
  for (auto it = spans.begin(); it != spans.end(); ++it) {
    const auto next = std::next(it);
    if (next == spans.end() || it->second.second < next->second.first) continue;
    found.push_back(absl::StrCat("generation ", it->first, " was alive ",
                                 absl::FormatDuration(it->second.second - next->second.first),
                                 " after generation ", next->first, " had begun"));
  }
  return found;
}

}  // namespace capstan::integration
