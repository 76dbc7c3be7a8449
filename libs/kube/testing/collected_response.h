#ifndef CAPSTAN_LIBS_KUBE_TESTING_COLLECTED_RESPONSE_H_
#define CAPSTAN_LIBS_KUBE_TESTING_COLLECTED_RESPONSE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube::testing {

// A call whose response is kept, for tests. The transport's thread writes, the test's one reads.
class CollectedResponse final : public ResponseHandler {
 public:
  // Starts the call. `pump` as in ConformanceTarget.
  CollectedResponse(Transport* transport, HttpRequest request, std::function<bool()> pump);
  ~CollectedResponse() override;

  // False: nothing came, nor the end, within the limit.
  bool WaitForEnd(absl::Duration limit);
  bool WaitForHead(absl::Duration limit);
  // Moves the next line of the body, without its end, to `line`; false if there was none within the
  // limit or before the end.
  bool NextLine(absl::Duration limit, std::string* line);

  bool ended() const;
  // Of a response that has ended.
  absl::Status end() const;
  HttpHead head() const;
  std::string body() const;
  // Cancels the call.
  void Close() { call_ = nullptr; }

 private:
  void OnHead(HttpHead head) override;
  bool OnBytes(absl::string_view bytes) override;
  void OnEnd(absl::Status status) override;
  // With `done` under the mutex.
  bool Wait(absl::Duration limit, const std::function<bool()>& done);

  const std::function<bool()> pump_;
  mutable absl::Mutex mutex_;
  absl::optional<HttpHead> head_ ABSL_GUARDED_BY(mutex_);
  std::string body_ ABSL_GUARDED_BY(mutex_);
  size_t read_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Call> call_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_COLLECTED_RESPONSE_H_
