#include "libs/kube/transport/response_head.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

constexpr int kLowestInformational = 100;
constexpr int kLowestStatus = 200;
constexpr int kHighestStatus = 599;

absl::Status Broken(absl::string_view what) {
  return status::Error(absl::StatusCode::kUnavailable, kBroken, what);
}

}  // namespace

absl::Status ResponseHead::Count(size_t bytes) {
  bytes_ += bytes;
  if (bytes_ <= kMostBytes) return absl::OkStatus();
  return Broken("the head of the response has more than 256 KiB");
}

void ResponseHead::Begin(absl::string_view status) {
  head_ = HttpHead();
  if (!absl::SimpleAtoi(status, &head_.status)) head_.status = 0;
}

void ResponseHead::Add(absl::string_view name, absl::string_view value) {
  head_.headers.push_back({std::string(name), std::string(value)});
}

absl::StatusOr<bool> ResponseHead::End() const {
  if (head_.status >= kLowestInformational && head_.status < kLowestStatus) return false;
  if (head_.status >= kLowestStatus && head_.status <= kHighestStatus) return true;
  return Broken(absl::StrCat("the API server answered with status ", head_.status));
}

}  // namespace capstan::kube
