#include "services/node_agent/core/ports_book.h"

#include <algorithm>

namespace capstan::node_agent {

bool PortsBook::Usable(int32_t port) const {
  return (port < local_low_ || port > local_high_) && taken_.count(port) == 0;
}

std::vector<int32_t> PortsBook::Pick(const session::TaskId& id, int count) {
  std::vector<int32_t> picked;
  for (int32_t seen = first_; seen <= last_ && static_cast<int>(picked.size()) < count; ++seen) {
    if (Usable(next_)) picked.push_back(next_);
    next_ = next_ == last_ ? first_ : next_ + 1;
  }
  if (static_cast<int>(picked.size()) < count) return {};
  for (const int32_t port : picked) Take(id, port);
  return picked;
}

void PortsBook::Take(const session::TaskId& id, int32_t port) {
  taken_.insert_or_assign(port, id);
  if (port >= first_ && port <= last_) {
    next_ = std::max(next_, port == last_ ? first_ : port + 1);
  }
}

void PortsBook::Release(const session::TaskId& id) {
  for (auto it = taken_.begin(); it != taken_.end();) {
    it = it->second == id ? taken_.erase(it) : std::next(it);
  }
}

}  // namespace capstan::node_agent
