// What every Transport does, as a typed suite of tests. A Harness is made for each test and has
//   Transport& transport()           to a server that answers by the script
//   void Serve(Script script)        before the first call
//   void Pass(absl::Duration time)   lets time pass, of whatever kind the transport counts
//   void Destroy()                   destroys the transport, and the server, whose script ends
// All else about the server is the adapter's own test's.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_CONFORMANCE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_CONFORMANCE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/testing/one_exchange.h"
#include "libs/kube/transport/testing/recording_handler.h"
#include "libs/kube/transport/testing/scripted_exchange.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {

// Bytes that show where they were lost, doubled or swapped.
inline std::string NumberedBytes(size_t size) {
  std::string bytes;
  for (size_t i = 0; bytes.size() < size; ++i) absl::StrAppend(&bytes, i, " ");
  bytes.resize(size);
  return bytes;
}

// Resumes a call each time its handler has wanted no more, to its end. The hooks are its own.
class SlowHandler {
 public:
  SlowHandler() {
    handler.bytes_hook = [this](absl::string_view) {
      absl::MutexLock lock(&mutex_);
      ++pauses_;
      return false;
    };
    handler.end_hook = [this] {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    };
  }

  absl::Status ResumeToTheEnd(Call& call) {
    for (int resumed = 0;;) {
      {
        absl::MutexLock lock(&mutex_);
        const auto paused = [this, resumed]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return pauses_ > resumed || ended_;
        };
        EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&paused), absl::Seconds(20)));
        if (ended_ || pauses_ == resumed) break;
        resumed = pauses_;
      }
      handler.WillResume();
      call.Resume();
    }
    return handler.AwaitEnd();
  }

  RecordingHandler handler;

 private:
  absl::Mutex mutex_;
  int pauses_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

template <typename Harness>
class TransportConformance : public testing::Test {
 protected:
  Harness harness_;
};

TYPED_TEST_SUITE_P(TransportConformance);

TYPED_TEST_P(TransportConformance, TellsHeadBytesAndEnd) {
  this->harness_.Serve([](std::shared_ptr<ScriptedExchange> exchange) {
    exchange->Head(201, {{"X-Name", "value"}});
    exchange->Bytes("one ");
    exchange->Bytes("two");
    exchange->End();
  });
  RecordingHandler handler;
  const auto call = this->harness_.transport().Start(RequestOf("/a?b=c"), &handler);
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  const HttpHead head = handler.AwaitHead();
  EXPECT_EQ(head.status, 201);
  EXPECT_EQ(FindHeader(head.headers, "x-name"), "value");
  EXPECT_EQ(handler.body(), "one two");
}

TYPED_TEST_P(TransportConformance, DeliversAnyStatusAndAnEmptyBody) {
  this->harness_.Serve([](std::shared_ptr<ScriptedExchange> exchange) {
    const bool redirect = exchange->request().target == "/redirect";
    exchange->Reply(redirect ? 307 : 404, redirect ? "" : "not here");
  });
  RecordingHandler missing;
  RecordingHandler redirect;
  const auto first = this->harness_.transport().Start(RequestOf("/missing"), &missing);
  const auto second = this->harness_.transport().Start(RequestOf("/redirect"), &redirect);
  EXPECT_EQ(missing.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(missing.AwaitHead().status, 404);
  EXPECT_EQ(missing.body(), "not here");
  EXPECT_EQ(redirect.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(redirect.AwaitHead().status, 307);
  EXPECT_EQ(redirect.pieces(), 0u);
}

TYPED_TEST_P(TransportConformance, SendsTheRequestAsItIs) {
  OneExchange one;
  this->harness_.Serve(one.script());
  for (const std::string method : {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
    HttpRequest request = RequestOf("/api/v1/x%2Fy/../z?a=b%20c&d");
    request.method = method;
    request.headers = {{"Content-Type", "application/json"}, {"X-Empty", ""}, {"X-Two", "a, b"}};
    if (method != "GET") request.body = std::string("{\0}", 3);
    RecordingHandler handler;
    const auto call = this->harness_.transport().Start(request, &handler);
    const auto exchange = one.Await();
    EXPECT_EQ(exchange->request().method, method);
    EXPECT_EQ(exchange->request().target, request.target);
    EXPECT_EQ(exchange->request().body, request.body);
    for (const HttpHeader& header : request.headers) {
      EXPECT_EQ(FindHeader(exchange->request().headers, header.name), header.value);
    }
    exchange->Reply(200, "");
    EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  }
}

TYPED_TEST_P(TransportConformance, RefusesWrongRequests) {
  this->harness_.Serve(
      [](std::shared_ptr<ScriptedExchange> exchange) { exchange->Reply(200, ""); });
  const HttpRequest good = RequestOf("/");
  std::vector<HttpRequest> bad(11, good);
  bad[0].method = "GET /other";
  bad[1].method = "";
  bad[2].target = "no-slash";
  bad[3].target = "/a b";
  bad[4].target = "/a\r\nX: y";
  bad[5].headers = {{"X", "a\r\nY: b"}};
  bad[6].headers = {{"X: a\r\nY", "b"}};
  bad[7].headers = {{"Host", "elsewhere"}};
  bad[8].headers = {{"authorization", "Bearer mine"}};
  bad[9].headers = {{"X", std::string("a\0b", 3)}};
  bad[10].target = "/a#b";
  for (size_t i = 0; i < bad.size(); ++i) {
    RecordingHandler handler;
    const auto call = this->harness_.transport().Start(bad[i], &handler);
    const absl::Status status = handler.AwaitEnd();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(status::Reason(status), kBadRequest) << i;
    EXPECT_FALSE(handler.headed());
  }
}

TYPED_TEST_P(TransportConformance, CallsNoHandlerInStart) {
  this->harness_.Serve(
      [](std::shared_ptr<ScriptedExchange> exchange) { exchange->Reply(200, "x"); });
  HttpRequest bad = RequestOf("/");
  bad.method = "";
  for (const HttpRequest& request : {RequestOf("/"), bad}) {
    RecordingHandler handler;
    const std::thread::id caller = std::this_thread::get_id();
    handler.end_hook = [caller] { EXPECT_NE(std::this_thread::get_id(), caller); };
    const auto call = this->harness_.transport().Start(request, &handler);
    handler.AwaitEnd().IgnoreError();
    this->harness_.Pass(absl::ZeroDuration());
  }
}

TYPED_TEST_P(TransportConformance, CallsNoMethodAfterTheHandlerDestroyedItsCall) {
  this->harness_.Serve([](std::shared_ptr<ScriptedExchange> exchange) {
    exchange->Head(200, {});
    exchange->Bytes("one");
    exchange->Bytes("two");
    exchange->End();
  });
  for (const int where : {0, 1, 2}) {
    RecordingHandler handler;
    absl::Mutex mutex;
    std::unique_ptr<Call> call;
    absl::Notification destroyed;
    const auto destroy = [&mutex, &call, &destroyed] {
      std::unique_ptr<Call> doomed;
      {
        absl::MutexLock lock(&mutex);
        doomed = std::move(call);
      }
      doomed.reset();
      destroyed.Notify();
    };
    if (where == 0) handler.head_hook = destroy;
    if (where == 1) {
      handler.bytes_hook = [&destroy](absl::string_view) {
        destroy();
        return true;
      };
    }
    if (where == 2) handler.end_hook = destroy;
    {
      absl::MutexLock lock(&mutex);
      call = this->harness_.transport().Start(RequestOf("/"), &handler);
    }
    ASSERT_TRUE(destroyed.WaitForNotificationWithTimeout(absl::Seconds(20)));
    // Another call's end comes after whatever would still have come.
    RecordingHandler other;
    const auto second = this->harness_.transport().Start(RequestOf("/"), &other);
    EXPECT_EQ(other.AwaitEnd(), absl::OkStatus());
    EXPECT_EQ(handler.ended(), where == 2);
    EXPECT_EQ(handler.pieces() > 0, where > 0);
  }
}

TYPED_TEST_P(TransportConformance, WaitsForARunningHandlerWhenACallIsDestroyed) {
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  absl::Notification entered;
  absl::Notification destroying;
  std::atomic<bool> left = false;
  handler.bytes_hook = [&](absl::string_view) {
    entered.Notify();
    destroying.WaitForNotification();
    left = true;
    return true;
  };
  auto call = this->harness_.transport().Start(RequestOf("/"), &handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  exchange->Bytes("x");
  ASSERT_TRUE(entered.WaitForNotificationWithTimeout(absl::Seconds(20)));
  std::thread release([&destroying] { destroying.Notify(); });
  call.reset();
  EXPECT_TRUE(left);
  release.join();
  // Its end would come before another call's.
  exchange->End();
  RecordingHandler other;
  const auto second = this->harness_.transport().Start(RequestOf("/"), &other);
  one.Await()->Reply(200, "");
  EXPECT_EQ(other.AwaitEnd(), absl::OkStatus());
  EXPECT_FALSE(handler.ended());
}

TYPED_TEST_P(TransportConformance, StopsAtFalseUntilResume) {
  constexpr size_t kPieces = 50;
  OneExchange one;
  this->harness_.Serve(one.script());
  SlowHandler slow;
  const auto call = this->harness_.transport().Start(RequestOf("/"), &slow.handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  for (size_t i = 0; i < kPieces; ++i) exchange->Bytes("piece ");
  exchange->End();
  EXPECT_EQ(slow.ResumeToTheEnd(*call), absl::OkStatus());
  EXPECT_EQ(slow.handler.body().size(), kPieces * 6);
}

TYPED_TEST_P(TransportConformance, ForgetsAResumeInOnBytes) {
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  absl::Mutex mutex;
  std::unique_ptr<Call> call;
  handler.bytes_hook = [&](absl::string_view) {
    handler.WillResume();
    absl::MutexLock lock(&mutex);
    call->Resume();
    return false;
  };
  {
    absl::MutexLock lock(&mutex);
    call = this->harness_.transport().Start(RequestOf("/"), &handler);
    // Nothing to resume yet: that must not be kept for a later pause.
    call->Resume();
  }
  const auto exchange = one.Await();
  exchange->Head(200, {});
  for (size_t i = 1; i <= 3; ++i) {
    exchange->Bytes("piece ");
    EXPECT_EQ(handler.AwaitBytes(i * 6).size(), i * 6);
  }
  exchange->End();
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  call->Resume();
}

TYPED_TEST_P(TransportConformance, TellsTheEndAfterBytesThatAreHeld) {
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  handler.bytes_hook = [](absl::string_view) { return false; };
  const auto call = this->harness_.transport().Start(RequestOf("/"), &handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  exchange->Bytes("first");
  EXPECT_EQ(handler.AwaitBytes(5), "first");
  exchange->Bytes("second");
  exchange->End();
  // Its end comes after the first one's would have.
  this->harness_.Pass(absl::Milliseconds(20));
  EXPECT_FALSE(handler.ended());
  handler.WillResume();
  call->Resume();
  EXPECT_EQ(handler.AwaitBytes(11), "firstsecond");
  handler.WillResume();
  call->Resume();
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
}

TYPED_TEST_P(TransportConformance, TimesOutWithoutAnAnswerAndWithinOne) {
  OneExchange one;
  this->harness_.Serve(one.script());
  for (const bool answered : {false, true}) {
    RecordingHandler handler;
    HttpRequest request = RequestOf("/");
    request.timeout = absl::Milliseconds(300);
    const auto call = this->harness_.transport().Start(request, &handler);
    const auto exchange = one.Await();
    if (answered) {
      exchange->Head(200, {});
      exchange->Bytes("x");
    }
    this->harness_.Pass(absl::Milliseconds(300));
    const absl::Status status = handler.AwaitEnd();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(status::Reason(status), kTimedOut);
  }
}

TYPED_TEST_P(TransportConformance, TimesOutWhenNothingComesButNotWhenNothingIsWanted) {
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  handler.bytes_hook = [](absl::string_view bytes) { return bytes != "pause"; };
  HttpRequest request = RequestOf("/");
  request.idle_timeout = absl::Milliseconds(400);
  const auto call = this->harness_.transport().Start(request, &handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  exchange->Bytes("pause");
  EXPECT_EQ(handler.AwaitBytes(5), "pause");
  this->harness_.Pass(absl::Milliseconds(800));
  EXPECT_FALSE(handler.ended());
  handler.WillResume();
  call->Resume();
  exchange->Bytes("more");
  EXPECT_EQ(handler.AwaitBytes(9), "pausemore");
  this->harness_.Pass(absl::Milliseconds(400));
  EXPECT_EQ(status::Reason(handler.AwaitEnd()), kTimedOut);
}

TYPED_TEST_P(TransportConformance, TimesOutWhileTheHandlerWantsNoMore) {
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  handler.bytes_hook = [](absl::string_view) { return false; };
  HttpRequest request = RequestOf("/");
  request.timeout = absl::Milliseconds(300);
  const auto call = this->harness_.transport().Start(request, &handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  exchange->Bytes("x");
  EXPECT_EQ(handler.AwaitBytes(1), "x");
  this->harness_.Pass(absl::Milliseconds(300));
  EXPECT_EQ(status::Reason(handler.AwaitEnd()), kTimedOut);
}

TYPED_TEST_P(TransportConformance, CarriesBigBodiesBothWays) {
  const std::string big = NumberedBytes(size_t{16} << 20);
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  HttpRequest request = RequestOf("/");
  request.method = "POST";
  request.body = big;
  const auto call = this->harness_.transport().Start(request, &handler);
  const auto exchange = one.Await();
  EXPECT_TRUE(exchange->request().body == big);
  exchange->Reply(200, big);
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  EXPECT_TRUE(handler.body() == big);
}

TYPED_TEST_P(TransportConformance, CarriesABigBodyToASlowHandler) {
  const std::string big = NumberedBytes(size_t{16} << 20);
  OneExchange one;
  this->harness_.Serve(one.script());
  SlowHandler slow;
  const auto call = this->harness_.transport().Start(RequestOf("/"), &slow.handler);
  one.Await()->Reply(200, big);
  EXPECT_EQ(slow.ResumeToTheEnd(*call), absl::OkStatus());
  EXPECT_TRUE(slow.handler.body() == big);
}

TYPED_TEST_P(TransportConformance, HasManyCallsUnderWayAtOnce) {
  constexpr size_t kCalls = 200;
  absl::Mutex mutex;
  std::vector<std::shared_ptr<ScriptedExchange>> exchanges;
  this->harness_.Serve([&](std::shared_ptr<ScriptedExchange> exchange) {
    absl::MutexLock lock(&mutex);
    exchanges.push_back(std::move(exchange));
    if (exchanges.size() < kCalls) return;
    for (const auto& one : exchanges) one->Reply(200, one->request().target);
  });
  std::vector<RecordingHandler> handlers(kCalls);
  std::vector<std::unique_ptr<Call>> calls;
  for (size_t i = 0; i < kCalls; ++i) {
    calls.push_back(
        this->harness_.transport().Start(RequestOf(absl::StrCat("/", i)), &handlers[i]));
  }
  for (size_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(handlers[i].AwaitEnd(), absl::OkStatus());
    EXPECT_EQ(handlers[i].body(), absl::StrCat("/", i));
  }
  calls.clear();
  this->harness_.Destroy();
}

TYPED_TEST_P(TransportConformance, TellsTheServerThatAnEndlessCallIsCancelled) {
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  HttpRequest request = RequestOf("/?watch=true");
  request.timeout = absl::InfiniteDuration();
  auto call = this->harness_.transport().Start(request, &handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  for (int i = 0; i < 1000; ++i) exchange->Bytes("event\n");
  handler.AwaitBytes(1);
  call.reset();
  EXPECT_TRUE(exchange->AwaitGone(absl::Seconds(20)));
  EXPECT_FALSE(handler.ended());
}

TYPED_TEST_P(TransportConformance, SaysThatAResponseBroke) {
  OneExchange one;
  this->harness_.Serve(one.script());
  RecordingHandler handler;
  const auto call = this->harness_.transport().Start(RequestOf("/"), &handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  exchange->Bytes("half");
  EXPECT_EQ(handler.AwaitBytes(4), "half");
  exchange->Break();
  const absl::Status status = handler.AwaitEnd();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::Reason(status), kBroken);
}

TYPED_TEST_P(TransportConformance, StartsAndDestroysCallsFromHandlers) {
  constexpr int kCalls = 20;
  this->harness_.Serve(
      [](std::shared_ptr<ScriptedExchange> exchange) { exchange->Reply(200, "x"); });
  std::vector<RecordingHandler> handlers(kCalls);
  std::vector<std::unique_ptr<Call>> calls(kCalls);
  absl::Mutex mutex;
  for (int i = 0; i + 1 < kCalls; ++i) {
    handlers[i].end_hook = [&, i] {
      absl::MutexLock lock(&mutex);
      calls[i + 1] = this->harness_.transport().Start(RequestOf("/"), &handlers[i + 1]);
      if (i > 0) calls[i - 1].reset();
    };
  }
  {
    absl::MutexLock lock(&mutex);
    calls[0] = this->harness_.transport().Start(RequestOf("/"), &handlers[0]);
  }
  EXPECT_EQ(handlers[kCalls - 1].AwaitEnd(), absl::OkStatus());
  this->harness_.Destroy();
}

TYPED_TEST_P(TransportConformance, EndsTheCallsUnderWayWhenItIsDestroyed) {
  absl::Mutex mutex;
  size_t come = 0;
  this->harness_.Serve([&](std::shared_ptr<ScriptedExchange> exchange) {
    if (exchange->request().target == "/bytes") {
      exchange->Head(200, {});
      exchange->Bytes("x");
    }
    absl::MutexLock lock(&mutex);
    ++come;
  });
  RecordingHandler silent;
  RecordingHandler paused;
  paused.bytes_hook = [](absl::string_view) { return false; };
  RecordingHandler late;
  const auto first = this->harness_.transport().Start(RequestOf("/silent"), &silent);
  const auto second = this->harness_.transport().Start(RequestOf("/bytes"), &paused);
  paused.AwaitBytes(1);
  {
    const auto both = [&come] { return come == 2; };
    absl::MutexLock lock(&mutex);
    ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&both), absl::Seconds(20)));
  }
  const auto third = this->harness_.transport().Start(RequestOf("/late"), &late);
  this->harness_.Destroy();
  for (RecordingHandler* const handler : {&silent, &paused, &late}) {
    ASSERT_TRUE(handler->ended());
    const absl::Status status = handler->AwaitEnd();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(status::Reason(status), kStopped);
  }
  second->Resume();
}

REGISTER_TYPED_TEST_SUITE_P(
    TransportConformance, TellsHeadBytesAndEnd, DeliversAnyStatusAndAnEmptyBody,
    SendsTheRequestAsItIs, RefusesWrongRequests, CallsNoHandlerInStart,
    CallsNoMethodAfterTheHandlerDestroyedItsCall, WaitsForARunningHandlerWhenACallIsDestroyed,
    StopsAtFalseUntilResume, ForgetsAResumeInOnBytes, TellsTheEndAfterBytesThatAreHeld,
    TimesOutWithoutAnAnswerAndWithinOne, TimesOutWhenNothingComesButNotWhenNothingIsWanted,
    TimesOutWhileTheHandlerWantsNoMore, CarriesBigBodiesBothWays, CarriesABigBodyToASlowHandler,
    HasManyCallsUnderWayAtOnce, TellsTheServerThatAnEndlessCallIsCancelled, SaysThatAResponseBroke,
    StartsAndDestroysCallsFromHandlers, EndsTheCallsUnderWayWhenItIsDestroyed);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_CONFORMANCE_H_
