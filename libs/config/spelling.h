#ifndef CAPSTAN_LIBS_CONFIG_SPELLING_H_
#define CAPSTAN_LIBS_CONFIG_SPELLING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::config {

// The candidate that `word` is most likely a slip for, or "" if none is near: at most a third of
// its letters may differ (insertions, deletions, substitutions, swaps of neighbours).
std::string NearestWord(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace capstan::config

#endif  // CAPSTAN_LIBS_CONFIG_SPELLING_H_
