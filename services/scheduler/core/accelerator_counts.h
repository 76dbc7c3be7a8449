#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ACCELERATOR_COUNTS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ACCELERATOR_COUNTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::scheduler {

// How many there are of each kind of accelerator, in order of name: what a std::map is to its
// readers, in one piece. A round makes, copies and compares some of them for each Node and gang.
class AcceleratorCounts {
  using Entries = std::vector<std::pair<std::string, int64_t>>;

  template <typename E>
  static auto LowerBound(E& entries, absl::string_view name) {
    return std::lower_bound(
        entries.begin(), entries.end(), name,
        [](const auto& entry, absl::string_view wanted) { return entry.first < wanted; });
  }

 public:
  using const_iterator = Entries::const_iterator;  // NOLINT(readability-identifier-naming)

  AcceleratorCounts() = default;
  AcceleratorCounts(std::initializer_list<std::pair<std::string, int64_t>> counts) {
    for (const auto& [name, count] : counts) (*this)[name] = count;
  }

  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }

  const_iterator find(absl::string_view name) const {
    const auto at = LowerBound(entries_, name);
    return at != end() && at->first == name ? at : end();
  }
  // 0 of one that was not there, until it is set. Good until another is asked for so.
  int64_t& operator[](absl::string_view name) {
    auto at = LowerBound(entries_, name);
    if (at == entries_.end() || at->first != name) {
      at = entries_.emplace(at, std::string(name), 0);
    }
    return at->second;
  }
  void erase(absl::string_view name) {
    const auto at = find(name);
    if (at != end()) entries_.erase(at);
  }

  friend bool operator==(const AcceleratorCounts&, const AcceleratorCounts&) = default;

 private:
  Entries entries_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ACCELERATOR_COUNTS_H_
