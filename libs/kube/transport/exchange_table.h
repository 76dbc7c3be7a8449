#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_EXCHANGE_TABLE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_EXCHANGE_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// The calls that a loop carries out, and when each is late. Of the transport's thread.
//
// An Exchange has id() and Deadline(), which moves to later by itself, as bytes come; SetTimer is
// for when it may have moved to earlier.
template <typename Exchange>
class ExchangeTable {
 public:
  Exchange& Add(std::unique_ptr<Exchange> exchange) {
    Exchange& added = *exchange;
    entries_[added.id()].exchange = std::move(exchange);
    return added;
  }
  // Null if there is none.
  Exchange* Find(uint64_t id) const {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : found->second.exchange.get();
  }
  // Destroys it.
  void Erase(const Exchange& exchange) {
    const auto found = entries_.find(exchange.id());
    timers_.erase({found->second.timer, found->first});
    entries_.erase(found);
  }
  void SetTimer(const Exchange& exchange) {
    const auto found = entries_.find(exchange.id());
    const BootTime deadline = exchange.Deadline();
    BootTime& timer = found->second.timer;
    if (deadline == timer) return;
    timers_.erase({timer, found->first});
    timer = deadline;
    if (deadline != BootTime::InfiniteFuture()) timers_.insert({deadline, found->first});
  }
  // Calls `late` for each that is, and which it must erase.
  template <typename Late>
  void FireTimers(BootTime now, const Late& late) {
    while (!timers_.empty() && timers_.begin()->first <= now) {
      Exchange& exchange = *Find(timers_.begin()->second);
      if (exchange.Deadline() <= now) {
        late(exchange);
      } else {
        // Bytes have come since it was set.
        SetTimer(exchange);
      }
    }
  }
  // When FireTimers has something to do.
  BootTime NextTimer() const {
    return timers_.empty() ? BootTime::InfiniteFuture() : timers_.begin()->first;
  }
  // Of those for which `which` is true, in the order of their starts.
  template <typename Which>
  std::vector<uint64_t> Ids(const Which& which) const {
    std::vector<uint64_t> ids;
    for (const auto& [id, entry] : entries_) {
      if (which(*entry.exchange)) ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

 private:
  struct Entry {
    std::unique_ptr<Exchange> exchange;
    // Its key in timers_.
    BootTime timer = BootTime::InfiniteFuture();
  };

  absl::flat_hash_map<uint64_t, Entry> entries_;
  std::set<std::pair<BootTime, uint64_t>> timers_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_EXCHANGE_TABLE_H_
