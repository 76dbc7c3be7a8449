#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_RECORDING_HANDLER_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_RECORDING_HANDLER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

// Keeps what it is told and fails the test if it is told in a wrong order, or bytes while it has
// said that it wants none. A wait that is in vain ends after 20 seconds and fails the test.
class RecordingHandler final : public ResponseHandler {
 public:
  // Called after the event was kept, outside of the lock. `bytes_hook` says whether more are
  // wanted.
  std::function<void()> head_hook;
  std::function<bool(absl::string_view)> bytes_hook;
  std::function<void()> end_hook;

  void OnHead(HttpHead head) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(headed_) << "a second head";
      EXPECT_FALSE(ended_) << "a head after the end";
      headed_ = true;
      head_ = std::move(head);
    }
    if (head_hook) head_hook();
  }

  bool OnBytes(absl::string_view bytes) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_TRUE(headed_) << "bytes before the head";
      EXPECT_FALSE(ended_) << "bytes after the end";
      EXPECT_FALSE(paused_) << "bytes that are not wanted";
      EXPECT_FALSE(bytes.empty());
      body_.append(bytes.data(), bytes.size());
      ++pieces_;
    }
    if (!bytes_hook) return true;
    {
      // Before the hook, in which another thread may learn of it and resume.
      absl::MutexLock lock(&mutex_);
      paused_ = true;
    }
    const bool wanted = bytes_hook(bytes);
    if (wanted) WillResume();
    return wanted;
  }

  void OnEnd(absl::Status status) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(ended_) << "a second end";
      ended_ = true;
      status_ = std::move(status);
    }
    if (end_hook) end_hook();
  }

  // Call it before Resume.
  void WillResume() {
    absl::MutexLock lock(&mutex_);
    paused_ = false;
  }

  HttpHead AwaitHead() {
    absl::MutexLock lock(&mutex_);
    Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return headed_ || ended_; });
    EXPECT_TRUE(headed_) << status_;
    return head_;
  }
  // The body so far, once it has `size` bytes or the call has ended.
  std::string AwaitBytes(size_t size) {
    absl::MutexLock lock(&mutex_);
    Await([this, size]()
              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return body_.size() >= size || ended_; });
    return body_;
  }
  absl::Status AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; });
    return status_;
  }

  bool headed() const {
    absl::MutexLock lock(&mutex_);
    return headed_;
  }
  bool ended() const {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }
  std::string body() const {
    absl::MutexLock lock(&mutex_);
    return body_;
  }
  size_t pieces() const {
    absl::MutexLock lock(&mutex_);
    return pieces_;
  }

 private:
  template <typename F>
  void Await(F met) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&met), absl::Seconds(20)));
  }

  mutable absl::Mutex mutex_;
  bool headed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  HttpHead head_ ABSL_GUARDED_BY(mutex_);
  std::string body_ ABSL_GUARDED_BY(mutex_);
  size_t pieces_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_RECORDING_HANDLER_H_
