// With real threads: callers that wait, the strand, and a transport that answers from its own.
#include "libs/kube/client/await.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

// Answers each call with its own target, on a thread of its own.
class EchoTransport final : public Transport {
 public:
  explicit EchoTransport(const Clock* clock) : strand_("echo", clock) {}

  std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) override {
    auto call = std::make_unique<EchoCall>();
    strand_.Post([state = call->state, target = request.target, handler] {
      absl::MutexLock lock(&state->mutex);
      if (state->cancelled) return;
      handler->OnHead({200, {}});
      handler->OnBytes(target);
      handler->OnEnd(absl::OkStatus());
    });
    return call;
  }

 private:
  struct State {
    absl::Mutex mutex;
    bool cancelled ABSL_GUARDED_BY(mutex) = false;
  };
  struct EchoCall final : Call {
    ~EchoCall() override {
      absl::MutexLock lock(&state->mutex);
      state->cancelled = true;
    }
    void Resume() override {}
    const std::shared_ptr<State> state = std::make_shared<State>();
  };

  ThreadStrand strand_;
};

class SilentTransport final : public Transport {
 public:
  std::unique_ptr<Call> Start(HttpRequest, ResponseHandler*) override {
    struct Silence final : Call {
      void Resume() override {}
    };
    started_.DecrementCount();
    return std::make_unique<Silence>();
  }
  void AwaitStarts() { started_.Wait(); }

 private:
  absl::BlockingCounter started_{2};
};

TEST(AwaitTest, ManyThreadsGetEachTheirAnswer) {
  const SystemClock clock;
  EchoTransport transport(&clock);
  ThreadStrand strand("client", &clock);
  Random random(1);
  Client client(&transport, &strand, &random, ClientOptions());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        ApiRequest request;
        request.target = absl::StrCat("/", t, "/", i);
        const auto response = Await<ApiResponse>(
            &strand, [&](auto done) { return client.Start(request, std::move(done)); });
        ASSERT_TRUE(response.ok()) << response.status();
        EXPECT_EQ(response->body, request.target);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  strand.Stop();
}

TEST(AwaitTest, IsReleasedWhenTheClientGoes) {
  const SystemClock clock;
  SilentTransport transport;
  ThreadStrand strand("client", &clock);
  Random random(1);
  auto client = std::make_unique<Client>(&transport, &strand, &random, ClientOptions());
  absl::Status one;
  absl::Status all;
  std::thread get([&] {
    one = BlockingResource(Resource<core_v1::Pod>(client.get(), kPods)).Get("d", "p").status();
  });
  std::thread list([&] {
    all = BlockingResource(Resource<core_v1::Pod>(client.get(), kPods)).ListAll("d", {}).status();
  });
  transport.AwaitStarts();
  strand.Post([&] { client.reset(); });
  get.join();
  list.join();
  EXPECT_EQ(status::Reason(one), kClientStopped);
  EXPECT_EQ(status::Reason(all), kClientStopped);
  strand.Stop();
}

TEST(AwaitTest, IsReleasedByAStrandThatHasStopped) {
  const SystemClock clock;
  SilentTransport transport;
  ThreadStrand strand("client", &clock);
  Random random(1);
  Client client(&transport, &strand, &random, ClientOptions());
  strand.Stop();
  const auto result = BlockingResource(Resource<core_v1::Pod>(&client, kPods)).Get("d", "p");
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace capstan::kube
