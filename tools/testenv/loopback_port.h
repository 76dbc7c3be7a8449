#ifndef CAPSTAN_TOOLS_TESTENV_LOOPBACK_PORT_H_
#define CAPSTAN_TOOLS_TESTENV_LOOPBACK_PORT_H_

#include "absl/status/statusor.h"

namespace capstan::testenv {

// A TCP port of 127.0.0.1 that is this object's alone among all who take theirs so, in all
// processes: it stays so while a server that listens there is restarted. Ports lie below those that
// the kernel gives to outgoing connections, and outside of the node agent's own range.
class LoopbackPort {
 public:
  // RESOURCE_EXHAUSTED if all are taken.
  static absl::StatusOr<LoopbackPort> Take();
  LoopbackPort(LoopbackPort&& other) noexcept : number_(other.number_), lock_(other.lock_) {
    other.lock_ = -1;
  }
  LoopbackPort(const LoopbackPort&) = delete;
  LoopbackPort& operator=(const LoopbackPort&) = delete;
  ~LoopbackPort();

  int number() const { return number_; }

 private:
  LoopbackPort(int number, int lock) : number_(number), lock_(lock) {}

  int number_;
  int lock_;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_LOOPBACK_PORT_H_
