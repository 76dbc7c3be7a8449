#ifndef CAPSTAN_LIBS_STORE_TESTING_LINEARIZABILITY_H_
#define CAPSTAN_LIBS_STORE_TESTING_LINEARIZABILITY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::store {

// One call on a register (a key) as its caller saw it. Times are of one logical clock that all
// callers share.
struct RegisterOperation {
  enum class Kind { kRead, kWrite, kCompareAndSet };
  Kind kind = Kind::kRead;
  int64_t called_at = 0;
  // INT64_MAX if the outcome never became known: it may have taken effect at any later time, or
  // not at all.
  int64_t returned_at = 0;
  // kRead: what was read; kWrite: what was written; kCompareAndSet: what was expected. "" is
  // absent.
  std::string value{};
  // kCompareAndSet: what was to be written, and whether it was.
  std::string desired{};
  bool succeeded = false;
  // The outcome is not known, but if it took effect, then before it returned.
  bool settled_unknown = false;
};

// Whether some order of the operations, in which each takes effect between its call and its return,
// explains what all of them saw, beginning with an absent register. After Wing and Gong (1993) with
// Lowe's memory of configurations; exponential in the number of overlapping calls only.
bool IsLinearizable(const std::vector<RegisterOperation>& history);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_TESTING_LINEARIZABILITY_H_
