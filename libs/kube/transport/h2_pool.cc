#include "libs/kube/transport/h2_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/time.h"

namespace capstan::kube {
namespace {

constexpr absl::Duration kRedial = absl::Seconds(1);

}  // namespace

H2Pool& H2Pools::PoolOf(const Credential& credential) {
  for (const auto& pool : pools_) {
    if (pool->credential.certificate_chain_pem == credential.certificate_chain_pem &&
        pool->credential.private_key_pem == credential.private_key_pem) {
      return *pool;
    }
  }
  pools_.push_back(std::make_unique<H2Pool>());
  pools_.back()->credential.certificate_chain_pem = credential.certificate_chain_pem;
  pools_.back()->credential.private_key_pem = credential.private_key_pem;
  return *pools_.back();
}

void H2Pools::Enqueue(const H2Exchange& exchange) {
  PoolOf(exchange.credential()).waiting.push_back(exchange.id());
}

H2Connection* H2Pools::Find(uint64_t id) const {
  for (const auto& pool : pools_) {
    for (const auto& connection : pool->connections) {
      if (connection->id() == id) return connection.get();
    }
  }
  return nullptr;
}

void H2Pools::Dispatch() {
  for (const auto& pool : pools_) {
    if (!pool->waiting.empty()) Dispatch(*pool);
  }
  pools_.erase(std::remove_if(pools_.begin(), pools_.end(),
                              [](const std::unique_ptr<H2Pool>& pool) {
                                return pool->connections.empty() && pool->waiting.empty();
                              }),
               pools_.end());
}

void H2Pools::Dispatch(H2Pool& pool) {
  while (!pool.waiting.empty()) {
    H2Exchange* const exchange = dialer_->Waiting(pool.waiting.front());
    if (exchange == nullptr) {
      pool.waiting.pop_front();
      continue;
    }
    // The first that has a place, so that what goes out goes together.
    const auto free = std::find_if(
        pool.connections.begin(), pool.connections.end(),
        [](const std::unique_ptr<H2Connection>& connection) { return connection->HasPlace(); });
    if (free == pool.connections.end()) break;
    if ((*free)->Submit(*exchange)) pool.waiting.pop_front();
  }
  if (pool.waiting.empty()) return;
  // Those that only end what they have count not: an endless call could be among it.
  int live = 0;
  size_t coming = 0;
  for (const auto& connection : pool.connections) {
    if (connection->closed() || connection->draining()) continue;
    ++live;
    if (!connection->open()) coming += static_cast<size_t>(setup_->options.max_streams);
  }
  if (live > 0 && setup_->now < pool.next_dial) return;
  while (pool.waiting.size() > coming && live < setup_->options.max_connections) {
    pool.connections.push_back(dialer_->Dial(pool.credential));
    coming += static_cast<size_t>(setup_->options.max_streams);
    ++live;
  }
}

void H2Pools::TakeClosed(
    const std::function<void(const H2Connection&, const std::vector<uint64_t>& forsaken)>& bury) {
  for (const auto& pool : pools_) {
    auto& all = pool->connections;
    const auto closed = std::stable_partition(
        all.begin(), all.end(),
        [](const std::unique_ptr<H2Connection>& connection) { return !connection->closed(); });
    const std::vector<std::unique_ptr<H2Connection>> gone(std::make_move_iterator(closed),
                                                          std::make_move_iterator(all.end()));
    all.erase(closed, all.end());
    for (const auto& connection : gone) {
      std::vector<uint64_t> forsaken;
      if (!connection->opened()) {
        pool->next_dial = setup_->now + kRedial;
        const bool others = std::any_of(
            all.begin(), all.end(),
            [](const std::unique_ptr<H2Connection>& other) { return !other->draining(); });
        if (!others) forsaken.assign(pool->waiting.begin(), pool->waiting.end());
        if (!others) pool->waiting.clear();
      }
      bury(*connection, forsaken);
    }
  }
}

bool H2Pools::Due() const {
  return std::any_of(pools_.begin(), pools_.end(), [](const std::unique_ptr<H2Pool>& pool) {
    return std::any_of(pool->connections.begin(), pool->connections.end(),
                       [&pool](const std::unique_ptr<H2Connection>& connection) {
                         return connection->closed() ||
                                (!pool->waiting.empty() && connection->HasPlace());
                       });
  });
}

std::vector<uint64_t> H2Pools::TakeWaiting() {
  std::vector<uint64_t> all;
  for (const auto& pool : pools_) {
    all.insert(all.end(), pool->waiting.begin(), pool->waiting.end());
    pool->waiting.clear();
  }
  return all;
}

BootTime H2Pools::NextDial() const {
  BootTime next = BootTime::InfiniteFuture();
  for (const auto& pool : pools_) {
    if (!pool->waiting.empty() && pool->next_dial > setup_->now) {
      next = std::min(next, pool->next_dial);
    }
  }
  return next;
}

}  // namespace capstan::kube
