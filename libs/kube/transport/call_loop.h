// What makes a Transport: a thread that carries calls out, and the calls as their owners see them.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_CALL_LOOP_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_CALL_LOOP_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "libs/kube/transport/delivery.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

// Shared by the transport and its calls, which may outlive the thread. Thread-safe.
class CallLoop {
 public:
  virtual ~CallLoop() = default;

  // Takes a call that CheckRequest has passed, or that ends with `refusal`. After Stop, none of
  // these does anything.
  virtual void Start(uint64_t id, HttpRequest request, std::shared_ptr<Delivery> delivery,
                     absl::Status refusal) = 0;
  // Delivery::Resume was true.
  virtual void Resume(uint64_t id) = 0;
  // Delivery::Cancel was called before the end was told.
  virtual void Forget(uint64_t id) = 0;
  // Ends all calls and the thread.
  virtual void Stop() = 0;
};

// What every loop ends calls with. UNAVAILABLE (kNotSent): more than `bound` are under way.
absl::Status TooManyCalls(int bound);
// UNAUTHENTICATED (kNoCredential).
absl::Status NoCredential(const absl::Status& why);
// CANCELLED (kStopped).
absl::Status LoopStopped();

// Destroying it stops the loop.
std::unique_ptr<Transport> MakeLoopTransport(std::shared_ptr<CallLoop> loop);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_CALL_LOOP_H_
