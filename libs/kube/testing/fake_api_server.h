// A Kubernetes API server in memory, behind the port by which clients reach one.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_SERVER_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/object_converter.h"
#include "libs/kube/testing/fake_api_http.h"
#include "libs/kube/testing/fake_api_state.h"
#include "libs/kube/testing/fake_exchange.h"
#include "libs/kube/testing/fault_plan.h"
#include "libs/kube/testing/watch_cursor.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/strand/simulated_strand.h"
#include "libs/strand/strand.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"

namespace capstan::kube::testing {

struct FakeApiServerOptions {
  FakeApiStateOptions state;
  uint64_t seed = 1;
  // Of protobuf. Null: JSON alone.
  const ObjectConverter* converter = nullptr;
  std::string git_version = "v1.36.3";
  absl::Duration bookmark_interval = absl::Minutes(1);
  // Requests that are remembered; later ones are only counted.
  size_t max_records = 100000;
};

// A request as it came.
struct RecordedRequest {
  BootTime when;
  std::string method;
  std::string target;
  // Without Authorization.
  std::vector<HttpHeader> headers;
  size_t body_bytes = 0;
  // FNV-1a of 64 bits: the same in every run.
  uint64_t body_hash = 0;
};

struct FakeApiCounters {
  int64_t requests = 0;
  // By the code of the answer; those that ended without one are not in it.
  std::map<int, int64_t> answers;
  // Streams that are open now.
  int64_t open_watches = 0;
  int64_t watch_events = 0;
};

// Hands out Transports to one FakeApiState. Handlers are called one after the other, in the order
// in which what they are told happened, by one of two pumps:
//   - simulated: on the strand that the test gives, so that equal tests run alike. What the test
//     runs on the same strand shares its time.
//   - a thread of its own.
//
// Thread-safe, but for the pumping of a simulated one. Must outlive its transports and their calls.
class FakeApiServer {
 public:
  // Simulated. `strand` must outlive it.
  FakeApiServer(FakeApiServerOptions options, SimulatedStrand* strand);
  // With a thread. `clock` must outlive it and run at the rate of real time.
  FakeApiServer(FakeApiServerOptions options, const Clock* clock);
  ~FakeApiServer();
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;

  std::unique_ptr<Transport> NewTransport();

  // Simulated ones alone: everything that is due now, timers included; or up to `when`.
  void RunUntilIdle();
  void AdvanceTo(BootTime when);

  // What a test does to the state besides requests; watches see it. `use` must not call the server.
  void Use(const std::function<void(FakeApiState&)>& use);
  void AddFault(Fault fault);
  void ClearFaults();
  size_t pending_faults() const;

  // Forgets all that led to the present state.
  void CompactNow();
  // Breaks every call that is under way; the state stays, and so do faults.
  void Restart();
  // Ends every watch, by an ERROR event of code 410 if `expired`.
  void CloseWatches(bool expired);

  std::vector<RecordedRequest> requests() const;
  // Of those that are remembered.
  int64_t CountRequests(const RequestMatcher& matcher) const;
  FakeApiCounters counters() const;

 private:
  class FakeCall;
  class FakeTransport;

  // One call. Only the strand touches it, under the mutex.
  struct Served {
    std::shared_ptr<FakeExchange> exchange;
    std::vector<FaultAction> faults;
    HandleOptions handling;
    // Has a revision that it waits for.
    int64_t wait_for = 0;
    std::unique_ptr<WatchCursor> cursor;
    int64_t events = 0;
    // Of a watch's body.
    size_t sent = 0;
    bool slow_piece_due = false;
    BootTime active;
    int64_t told = 0;
    std::vector<Strand::TimerId> timers;
  };
  using Id = uint64_t;

  FakeApiServer(FakeApiServerOptions options, std::unique_ptr<ThreadStrand> own,
                SimulatedStrand* simulated);

  std::shared_ptr<FakeExchange> Accept(HttpRequest request, ResponseHandler* handler, Id* id);
  void Forget(Id id);

  // On the strand.
  void Begin(Id id);
  void Respond(Id id, bool has_waited);
  void Pump(Id id);
  void PumpAll();
  void Bookmark(Id id);
  void CheckIdle(Id id);
  void EndWatch(Id id);
  void Break(Id id, absl::Status status);

  void SendReply(Id id, Served* served, HttpReply reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PollCursor(Served* served) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Record(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Arm(Served* served, absl::Duration delay, Strand::Task task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Post(std::function<void()> task);
  // After the state may have changed.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FakeApiServerOptions options_;
  // Null if the test owns it.
  const std::unique_ptr<ThreadStrand> own_strand_;
  // Null if it has a thread.
  SimulatedStrand* const simulated_;
  Strand* const strand_;
  // What was posted on a strand that outlives the server does nothing once this is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  mutable absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  FakeApiState state_ ABSL_GUARDED_BY(mutex_);
  FakeApiHttp http_ ABSL_GUARDED_BY(mutex_);
  FaultPlan faults_ ABSL_GUARDED_BY(mutex_);
  std::map<Id, Served> served_ ABSL_GUARDED_BY(mutex_);
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool pump_posted_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<RecordedRequest> records_ ABSL_GUARDED_BY(mutex_);
  FakeApiCounters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_SERVER_H_
