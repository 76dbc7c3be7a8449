#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_RESPOND_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_RESPOND_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/rpc/finish.h"

namespace capstan::data_loader {

// An answer that fills the response and ends the call.
template <typename T>
absl::AnyInvocable<void(absl::StatusOr<T>)> RespondWith(T* response, rpc::Finish finish) {
  return [response, finish = std::move(finish)](absl::StatusOr<T> result) mutable {
    if (result.ok()) *response = *std::move(result);
    finish(result.status());
  };
}

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_RESPOND_H_
