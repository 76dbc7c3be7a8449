#ifndef CAPSTAN_LIBS_KUBE_EXEC_TESTING_RECORDING_WEB_SOCKET_H_
#define CAPSTAN_LIBS_KUBE_EXEC_TESTING_RECORDING_WEB_SOCKET_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/exec/web_socket.h"

namespace capstan::kube {

// Keeps what it is told, and fails the test if that breaks the rules of web_socket.h. What is
// awaited comes within 30 s or fails the test.
class RecordingWebSocket final : public WebSocketHandler {
 public:
  // Set before it is dialled; each may be empty. `on_message` says whether more are wanted.
  std::function<void()> on_open;
  std::function<bool(absl::string_view)> on_message;
  std::function<void()> on_sent;
  std::function<void()> on_end;
  // Whether messages are kept, or but counted.
  bool keep = true;

  void OnOpen(absl::string_view subprotocol) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(subprotocol_.has_value() || end_.has_value());
      subprotocol_ = std::string(subprotocol);
    }
    if (on_open) on_open();
  }
  bool OnMessage(absl::string_view message) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_TRUE(subprotocol_.has_value() && !end_.has_value());
      ++count_;
      if (keep) messages_.emplace_back(message);
    }
    return !on_message || on_message(message);
  }
  void OnSent() override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_TRUE(subprotocol_.has_value() && !end_.has_value());
      ++sent_;
    }
    if (on_sent) on_sent();
  }
  void OnEnd(WebSocketEnd end) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(end_.has_value());
      end_ = std::move(end);
    }
    if (on_end) on_end();
  }

  std::string AwaitOpen() {
    absl::MutexLock lock(&mutex_);
    const auto open = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return subprotocol_.has_value(); };
    if (!Await(open)) return "";
    return *subprotocol_;
  }
  std::vector<std::string> AwaitMessages(size_t count) {
    absl::MutexLock lock(&mutex_);
    AwaitCountLocked(count);
    return messages_;
  }
  void AwaitCount(size_t count) {
    absl::MutexLock lock(&mutex_);
    AwaitCountLocked(count);
  }
  void AwaitSent(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto sent = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return sent_ >= count; };
    (void)Await(sent);
  }
  WebSocketEnd AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return end_.has_value(); };
    if (!Await(ended)) return {};
    return *end_;
  }

  std::vector<std::string> messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  size_t count() {
    absl::MutexLock lock(&mutex_);
    return count_;
  }
  bool ended() {
    absl::MutexLock lock(&mutex_);
    return end_.has_value();
  }

 private:
  template <typename Condition>
  bool Await(const Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool met = mutex_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(30));
    EXPECT_TRUE(met) << "waited in vain";
    return met;
  }

  void AwaitCountLocked(size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto come = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return count_ >= count; };
    (void)Await(come);
  }

  absl::Mutex mutex_;
  absl::optional<std::string> subprotocol_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> messages_ ABSL_GUARDED_BY(mutex_);
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<WebSocketEnd> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_TESTING_RECORDING_WEB_SOCKET_H_
