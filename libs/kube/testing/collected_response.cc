#include "libs/kube/testing/collected_response.h"

#include <utility>

#include "absl/strings/string_view.h"

namespace capstan::kube::testing {

CollectedResponse::CollectedResponse(Transport* transport, HttpRequest request,
                                     std::function<bool()> pump)
    : pump_(std::move(pump)), call_(transport->Start(std::move(request), this)) {}

CollectedResponse::~CollectedResponse() { call_ = nullptr; }

void CollectedResponse::OnHead(HttpHead head) {
  absl::MutexLock lock(&mutex_);
  head_ = std::move(head);
}

bool CollectedResponse::OnBytes(absl::string_view bytes) {
  absl::MutexLock lock(&mutex_);
  body_.append(bytes.data(), bytes.size());
  return true;
}

void CollectedResponse::OnEnd(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  end_ = std::move(status);
}

bool CollectedResponse::Wait(absl::Duration limit, const std::function<bool()>& done) {
  if (!pump_) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&done), limit);
  }
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (done()) return true;
    }
    if (!pump_()) return false;
  }
}

bool CollectedResponse::WaitForEnd(absl::Duration limit) {
  return Wait(limit, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return end_.has_value(); });
}

bool CollectedResponse::WaitForHead(absl::Duration limit) {
  return Wait(limit, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return head_.has_value() || end_.has_value();
  });
}

bool CollectedResponse::NextLine(absl::Duration limit, std::string* line) {
  const bool in_time = Wait(limit, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return end_.has_value() || body_.find('\n', read_) != std::string::npos;
  });
  absl::MutexLock lock(&mutex_);
  const size_t end = body_.find('\n', read_);
  if (!in_time || end == std::string::npos) return false;
  *line = body_.substr(read_, end - read_);
  read_ = end + 1;
  return true;
}

bool CollectedResponse::ended() const {
  absl::MutexLock lock(&mutex_);
  return end_.has_value();
}

absl::Status CollectedResponse::end() const {
  absl::MutexLock lock(&mutex_);
  return end_.value_or(absl::UnknownError("the call has not ended"));
}

HttpHead CollectedResponse::head() const {
  absl::MutexLock lock(&mutex_);
  return head_.value_or(HttpHead());
}

std::string CollectedResponse::body() const {
  absl::MutexLock lock(&mutex_);
  return body_;
}

}  // namespace capstan::kube::testing
