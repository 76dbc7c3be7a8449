#ifndef CAPSTAN_LIBS_RPC_BACKOFF_H_
#define CAPSTAN_LIBS_RPC_BACKOFF_H_

#include <utility>

#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

struct BackoffConfig {
  absl::Duration initial = absl::Milliseconds(200);
  absl::Duration max = absl::Seconds(10);
};

// Delays between attempts: doubling from `initial` to `max`, each drawn from the upper half, so
// that clients of a restarted server come back spread. For one strand.
class Backoff {
 public:
  // `random` must outlive it and belong to the same strand.
  explicit Backoff(Random* random, BackoffConfig config = {}) : random_(random), config_(config) {
    Reset();
  }

  absl::Duration Next();
  // After success.
  void Reset() { current_ = config_.initial; }

 private:
  Random* const random_;
  const BackoffConfig config_;
  absl::Duration current_;
};

// Calls `connect` now and again after each Lost(), by the back-off. For one strand; everything
// happens on it.
class Reconnect {
 public:
  // The strand and `random` must outlive it.
  Reconnect(Strand* strand, Random* random, Strand::Task connect, BackoffConfig config = {})
      : strand_(strand), backoff_(random, config), connect_(std::move(connect)) {}
  ~Reconnect() { Stop(); }

  // The first attempt, inline.
  void Start() { connect_(); }
  // The attempt failed or the connection was lost: try again later. While a retry is armed,
  // nothing.
  void Lost();
  // The connection proved useful: the next loss is retried soon.
  void Succeeded() { backoff_.Reset(); }
  void Stop();

 private:
  Strand* const strand_;
  Backoff backoff_;
  Strand::Task connect_;
  Strand::TimerId timer_ = 0;
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_BACKOFF_H_
