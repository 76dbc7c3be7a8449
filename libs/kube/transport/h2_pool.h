// Which connection carries which call.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_H2_POOL_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_H2_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/h2_connection.h"
#include "libs/kube/transport/h2_exchange.h"
#include "libs/time/clock.h"

namespace capstan::kube {

class H2Dialer {
 public:
  virtual ~H2Dialer() = default;
  // A connection that shows the credential's certificate, under way or closed already.
  virtual std::unique_ptr<H2Connection> Dial(const Credential& credential) = 0;
  // Null if the call needs no place any more.
  virtual H2Exchange* Waiting(uint64_t id) = 0;
};

// The connections that show one certificate, and the calls that wait for a place on one.
struct H2Pool {
  Credential credential;
  std::vector<std::unique_ptr<H2Connection>> connections;
  std::deque<uint64_t> waiting;
  // After one could not be made while others were there.
  BootTime next_dial = BootTime::InfinitePast();
};

// Of the transport's thread.
class H2Pools {
 public:
  H2Pools(const H2Setup* setup, H2Dialer* dialer) : setup_(setup), dialer_(dialer) {}

  // Puts the call at the end of its pool's queue.
  void Enqueue(const H2Exchange& exchange);
  // Gives places away, and dials for who gets none.
  void Dispatch();
  // Takes out the connections that have closed and hands each to `bury`, with the calls that waited
  // for nothing else, if it was never open: they are in no queue any more. Before Dispatch, which
  // would dial anew for those.
  void TakeClosed(
      const std::function<void(const H2Connection&, const std::vector<uint64_t>& forsaken)>& bury);
  // Whether there is anything to do for these two.
  bool Due() const;
  // All that wait; they are in no queue any more.
  std::vector<uint64_t> TakeWaiting();
  // When Dispatch wants to be called again, if nothing happens before.
  BootTime NextDial() const;

  template <typename F>
  void ForEach(F visit) const {
    for (const auto& pool : pools_) {
      for (const auto& connection : pool->connections) visit(*connection);
    }
  }
  H2Connection* Find(uint64_t id) const;
  void Clear() { pools_.clear(); }

 private:
  H2Pool& PoolOf(const Credential& credential);
  void Dispatch(H2Pool& pool);

  const H2Setup* const setup_;
  H2Dialer* const dialer_;
  std::vector<std::unique_ptr<H2Pool>> pools_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_H2_POOL_H_
