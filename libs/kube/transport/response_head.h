#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_RESPONSE_HEAD_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_RESPONSE_HEAD_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

// Gathers the head of a response from its fields, whoever reads those. All errors are UNAVAILABLE
// (kBroken).
class ResponseHead {
 public:
  // Of the head that counts, and of informational ones before it.
  static constexpr size_t kMostBytes = size_t{256} << 10;

  // So many bytes of heads or trailers have come.
  absl::Status Count(size_t bytes);
  // A head begins, with `status`; what came before was informational.
  void Begin(absl::string_view status);
  void Add(absl::string_view name, absl::string_view value);
  // The fields are whole. True: head() is the response's. False: it is informational.
  absl::StatusOr<bool> End() const;

  HttpHead& head() { return head_; }

 private:
  HttpHead head_;
  size_t bytes_ = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_RESPONSE_HEAD_H_
