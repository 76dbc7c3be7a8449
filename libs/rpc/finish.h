#ifndef CAPSTAN_LIBS_RPC_FINISH_H_
#define CAPSTAN_LIBS_RPC_FINISH_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace capstan::rpc {

// The right to end one call, once, from any thread. Move-only. If it is destroyed without having
// been used, as when a stopping strand drops its tasks, the call ends with UNAVAILABLE, so that a
// client never waits for nothing.
class Finish {
 public:
  explicit Finish(absl::AnyInvocable<void(const absl::Status&)> end) : end_(std::move(end)) {}
  Finish(Finish&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
  Finish& operator=(Finish&&) = delete;
  ~Finish() {
    if (end_) end_(absl::UnavailableError("The server is stopping."));
  }

  // Later uses are ignored.
  void operator()(const absl::Status& status) {
    absl::AnyInvocable<void(const absl::Status&)> end = std::exchange(end_, nullptr);
    if (end) end(status);
  }

 private:
  absl::AnyInvocable<void(const absl::Status&)> end_;
};

// An answer that fills the response of a unary call and ends it.
template <typename T>
absl::AnyInvocable<void(absl::StatusOr<T>)> RespondWith(T* response, Finish finish) {
  return [response, finish = std::move(finish)](absl::StatusOr<T> result) mutable {
    const absl::Status status = result.status();
    if (result.ok()) *response = *std::move(result);
    finish(status);
  };
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_FINISH_H_
