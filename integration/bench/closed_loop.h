#ifndef CAPSTAN_INTEGRATION_BENCH_CLOSED_LOOP_H_
#define CAPSTAN_INTEGRATION_BENCH_CLOSED_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "integration/bench/bench.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/time/clock.h"

namespace capstan::bench {

// What closed-loop clients have come to.
struct LoopResult {
  int64_t calls = 0;
  absl::Duration elapsed;
  // In no order; of every call.
  std::vector<absl::Duration> latencies = {};

  double PerSecond() const { return static_cast<double>(calls) / absl::ToDoubleSeconds(elapsed); }
};

// Clients that each make one call after another, for some time, without threads of their own: the
// next call begins where the answer of the one before comes in.
template <typename Request, typename Response>
class ClosedLoop {
 public:
  using Done = std::function<void(grpc::Status)>;
  // Starts a call of a client; `done` must be called once, from any thread.
  using Begin = std::function<void(int client, grpc::ClientContext* context, const Request* request,
                                   Response* response, Done done)>;
  // Makes a client's next request out of its last one.
  using Next = std::function<void(int client, Request* request)>;

  ClosedLoop(const Clock* clock, Begin begin, Next next)
      : clock_(clock), begin_(std::move(begin)), next_(std::move(next)) {}

  // The first error that a call has met, if any has.
  absl::StatusOr<LoopResult> Run(int clients, absl::Duration time) {
    std::vector<std::unique_ptr<Client>> all;
    absl::BlockingCounter running(clients);
    const BootTime begun = clock_->Read().boot;
    for (int i = 0; i < clients; ++i) {
      all.push_back(std::make_unique<Client>());
      all.back()->number = i;
    }
    failed_ = false;
    until_ = begun + time;
    for (const auto& client : all) Step(client.get(), &running);
    running.Wait();
    LoopResult result;
    result.elapsed = clock_->Read().boot - begun;
    for (const auto& client : all) {
      if (!client->status.ok()) return client->status;
      result.calls += static_cast<int64_t>(client->latencies.size());
      result.latencies.insert(result.latencies.end(), client->latencies.begin(),
                              client->latencies.end());
    }
    return result;
  }

 private:
  static constexpr absl::Duration kDeadline = absl::Seconds(60);

  // Used by one call at a time.
  struct Client {
    int number = 0;
    std::unique_ptr<grpc::ClientContext> context;
    Request request;
    Response response;
    BootTime begun;
    absl::Status status;
    std::vector<absl::Duration> latencies;
  };

  void Step(Client* client, absl::BlockingCounter* running) {
    next_(client->number, &client->request);
    client->context = std::make_unique<grpc::ClientContext>();
    rpc::SetDeadline(*client->context, kDeadline);
    // Many handshakes at once may take longer than a connection's first try.
    client->context->set_wait_for_ready(true);
    client->response.Clear();
    client->begun = clock_->Read().boot;
    begin_(client->number, client->context.get(), &client->request, &client->response,
           [this, client, running](const grpc::Status& status) {
             const BootTime now = clock_->Read().boot;
             if (!status.ok()) {
               client->status = rpc::FromGrpcStatus(status);
               failed_ = true;
             } else {
               client->latencies.push_back(now - client->begun);
             }
             if (failed_ || now >= until_) {
               running->DecrementCount();
             } else {
               Step(client, running);
             }
           });
  }

  const Clock* const clock_;
  const Begin begin_;
  const Next next_;
  BootTime until_;
  std::atomic<bool> failed_ = false;
};

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_CLOSED_LOOP_H_
