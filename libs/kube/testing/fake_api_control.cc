// What a test does to a fake API server, and asks of it.
#include <utility>

#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube::testing {

void FakeApiServer::Use(const std::function<void(FakeApiState&)>& use) {
  absl::MutexLock lock(&mutex_);
  use(state_);
  Settle();
}

void FakeApiServer::AddFault(Fault fault) {
  absl::MutexLock lock(&mutex_);
  faults_.Add(std::move(fault));
}

void FakeApiServer::ClearFaults() {
  absl::MutexLock lock(&mutex_);
  faults_.Clear();
}

size_t FakeApiServer::pending_faults() const {
  absl::MutexLock lock(&mutex_);
  return faults_.pending();
}

void FakeApiServer::CompactNow() {
  absl::MutexLock lock(&mutex_);
  state_.Compact(state_.store().revision());
}

void FakeApiServer::Restart() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, served] : served_) {
    Post([this, id = id] {
      Break(id, status::Error(absl::StatusCode::kUnavailable, kBroken,
                              "the fake API server was restarted, as a test asked for"));
    });
  }
}

void FakeApiServer::CloseWatches(bool expired) {
  absl::MutexLock lock(&mutex_);
  for (auto& [id, served] : served_) {
    if (served.cursor == nullptr) continue;
    if (expired && !served.cursor->ended()) {
      served.exchange->PushBytes(
          served.cursor->Error(Expired("too old resource version: closed by a test")));
    }
    Post([this, id = id] { EndWatch(id); });
  }
}

std::vector<RecordedRequest> FakeApiServer::requests() const {
  absl::MutexLock lock(&mutex_);
  return records_;
}

int64_t FakeApiServer::CountRequests(const RequestMatcher& matcher) const {
  absl::MutexLock lock(&mutex_);
  int64_t count = 0;
  for (const RecordedRequest& record : records_) {
    HttpRequest request;
    request.method = record.method;
    request.target = record.target;
    request.headers = record.headers;
    if (matcher.Matches(request)) ++count;
  }
  return count;
}

FakeApiCounters FakeApiServer::counters() const {
  absl::MutexLock lock(&mutex_);
  FakeApiCounters counters = counters_;
  for (const auto& [id, served] : served_) {
    if (served.cursor != nullptr && !served.exchange->done()) ++counters.open_watches;
  }
  return counters;
}

}  // namespace capstan::kube::testing
