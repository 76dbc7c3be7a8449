#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_ONE_EXCHANGE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_ONE_EXCHANGE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/testing/scripted_exchange.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

inline HttpRequest RequestOf(std::string target) {
  HttpRequest request;
  request.target = std::move(target);
  request.timeout = absl::Minutes(1);
  return request;
}

// Hands the requests of a test over to it, one at a time.
class OneExchange {
 public:
  Script script() {
    return [this](std::shared_ptr<ScriptedExchange> exchange) {
      absl::MutexLock lock(&mutex_);
      exchange_ = std::move(exchange);
    };
  }
  std::shared_ptr<ScriptedExchange> Await() {
    absl::MutexLock lock(&mutex_);
    const auto come = [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return exchange_ != nullptr; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&come), absl::Seconds(20)));
    return std::move(exchange_);
  }

 private:
  absl::Mutex mutex_;
  std::shared_ptr<ScriptedExchange> exchange_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_ONE_EXCHANGE_H_
