// A way to a server that tears connections and is slow.
#ifndef CAPSTAN_INTEGRATION_KUBE_ROUGH_PROXY_H_
#define CAPSTAN_INTEGRATION_KUBE_ROUGH_PROXY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace capstan::kube::testing {

// Passes bytes on to a port of loopback, from a port of loopback of its own. Thread-safe.
class RoughProxy {
 public:
  // Of what comes from the server.
  struct Roughness {
    // A connection is cut after so many bytes; 0: never.
    size_t cut_after = 0;
    // So many bytes at once, and none for a millisecond after them; 0: as they come.
    size_t bytes_each_millisecond = 0;
  };

  // Dies if it cannot listen.
  RoughProxy(uint16_t server_port, Roughness roughness);
  // Cuts all connections.
  ~RoughProxy();
  RoughProxy(const RoughProxy&) = delete;
  RoughProxy& operator=(const RoughProxy&) = delete;

  uint16_t port() const { return port_; }
  // Connections that were cut.
  int cuts() const { return cuts_; }

 private:
  void Accept();
  void Carry(int client);

  const uint16_t server_port_;
  const Roughness roughness_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> cuts_{0};
  absl::Mutex mutex_;
  std::vector<std::thread> carriers_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_ROUGH_PROXY_H_
