#include "integration/bench/watch_bench.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "integration/bench/bare_streams.h"
#include "integration/bench/bench_platform.h"
#include "integration/bench/figure.h"
#include "integration/bench/job_request.h"
#include "integration/bench/machine_limits.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/status_macros.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"

namespace capstan::bench {
namespace {

namespace pb = ::capstan::scheduler::v1;

constexpr char kQueue[] = "bench";
constexpr char kProject[] = "watched";
// Streams of one connection.
constexpr int kStreamsEach = 50;
constexpr int kCreators = 8;

// What all watchers have seen together. The mutex is theirs: gRPC calls them on its own threads.
class Seen {
 public:
  Seen(const Clock* clock, int watchers) : clock_(clock), watchers_(watchers) {}

  // Job `number` is about to be made.
  void Making(int64_t number) {
    absl::MutexLock lock(&mutex_);
    if (made_.size() <= static_cast<size_t>(number)) made_.resize(static_cast<size_t>(number) + 1);
    made_[static_cast<size_t>(number)] = clock_->Read().boot;
  }
  void Synced() {
    absl::MutexLock lock(&mutex_);
    ++synced_;
  }
  // A watcher has got a message about a Job; `first` if it is the first about this one.
  void Got(int64_t number, bool first) {
    const BootTime now = clock_->Read().boot;
    absl::MutexLock lock(&mutex_);
    ++messages_;
    if (!first || static_cast<size_t>(number) >= made_.size()) return;
    ++firsts_;
    delays_.push_back(now - made_[static_cast<size_t>(number)]);
  }
  void Ended(const grpc::Status& status) {
    absl::MutexLock lock(&mutex_);
    ++ended_;
    if (status_.ok()) status_ = rpc::FromGrpcStatus(status);
  }

  absl::Status AwaitSynced() { return Await(&synced_, watchers_); }
  // Until every watcher has seen so many Jobs since Forget.
  absl::Status AwaitJobs(int64_t jobs) { return Await(&firsts_, jobs * watchers_); }
  void AwaitEnded() {
    absl::MutexLock lock(&mutex_);
    const auto over = [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ >= watchers_; };
    mutex_.Await(absl::Condition(&over));
  }
  int64_t messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  std::vector<absl::Duration> Forget() {
    absl::MutexLock lock(&mutex_);
    messages_ = 0;
    firsts_ = 0;
    return std::exchange(delays_, {});
  }

 private:
  // Until a counter has reached `wanted`.
  absl::Status Await(const int64_t* counter, int64_t wanted) {
    absl::MutexLock lock(&mutex_);
    const auto over = [this, counter, wanted]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ended_ > 0 || *counter >= wanted;
    };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&over), absl::Seconds(60))) {
      return absl::DeadlineExceededError(
          absl::StrCat("watchers have got ", *counter, " of ", wanted));
    }
    if (ended_ == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("a watch ended: ", status_.message()));
  }

  const Clock* const clock_;
  const int64_t watchers_;
  absl::Mutex mutex_;
  std::vector<BootTime> made_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration> delays_ ABSL_GUARDED_BY(mutex_);
  int64_t synced_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t firsts_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Jobs are called `d<number>`; -1 for another.
int64_t NumberOf(absl::string_view name) {
  const size_t at = name.rfind("/d");
  int64_t number = -1;
  return at != absl::string_view::npos && absl::SimpleAtoi(name.substr(at + 2), &number) ? number
                                                                                         : -1;
}

class Watcher final : public grpc::ClientReadReactor<pb::WatchJobsResponse> {
 public:
  Watcher(Seen* seen, const std::shared_ptr<grpc::Channel>& channel)
      : seen_(seen), stub_(pb::JobService::NewStub(channel)) {
    request_.set_parent(absl::StrCat("projects/", kProject));
    context_.set_wait_for_ready(true);
    stub_->async()->WatchJobs(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    // gRPC calls OnDone.
    if (!ok) return;
    if (response_.synced()) seen_->Synced();
    const int64_t number = response_.has_job() ? NumberOf(response_.job().name()) : -1;
    if (number >= 0) {
      const auto at = static_cast<size_t>(number);
      if (known_.size() <= at) known_.resize(at + 1);
      seen_->Got(number, !known_[at]);
      known_[at] = true;
    }
    response_.Clear();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override { seen_->Ended(status); }

 private:
  Seen* const seen_;
  const std::unique_ptr<pb::JobService::Stub> stub_;
  grpc::ClientContext context_;
  pb::WatchJobsRequest request_;
  pb::WatchJobsResponse response_;
  // By number.
  std::vector<bool> known_;
};

pb::CreateJobRequest Numbered(int64_t number) {
  pb::CreateJobRequest request = SmallJob(kQueue, kProject);
  request.set_job_id(absl::StrCat("d", number));
  return request;
}

// As long as what a watcher gets.
pb::WatchJobsResponse TypicalMessage() {
  pb::WatchJobsResponse message;
  pb::Job& job = *message.mutable_job();
  job = Numbered(1).job();
  job.set_name(absl::StrCat("projects/", kProject, "/jobs/d1"));
  job.set_uid("8b3c5b7e-0f4a-4d7e-9c43-0123456789ab");
  job.set_etag("\"8b3c5b7e\"");
  job.set_reason("QUEUE_HELD");
  job.set_message("The Queue is held; nothing in it is started.");
  job.set_submitter("spiffe://capstan-0123456789ab.local/person/0");
  message.set_resume_token(std::string(64, 't'));
  return message;
}

// Makes so many Jobs, some at a time.
absl::Status MakeJobs(pb::JobService::Stub& jobs, int64_t from, int64_t count, Seen* seen) {
  // A loop's clients go on for a time, these until there is nothing left to make.
  struct Creator {
    std::unique_ptr<grpc::ClientContext> context;
    pb::CreateJobRequest request;
    pb::Job made;
    absl::Status status;
  };
  std::vector<Creator> creators(kCreators);
  std::atomic<int64_t> next = from;
  absl::BlockingCounter running(kCreators);
  std::function<void(Creator*)> step = [&](Creator* creator) {
    const int64_t number = next++;
    if (number >= from + count || !creator->status.ok()) {
      running.DecrementCount();
      return;
    }
    seen->Making(number);
    creator->request = Numbered(number);
    creator->context = std::make_unique<grpc::ClientContext>();
    rpc::SetDeadline(*creator->context, absl::Seconds(60));
    creator->context->set_wait_for_ready(true);
    jobs.async()->CreateJob(creator->context.get(), &creator->request, &creator->made,
                            [&step, creator](const grpc::Status& status) {
                              creator->status = rpc::FromGrpcStatus(status);
                              step(creator);
                            });
  };
  for (Creator& creator : creators) step(&creator);
  running.Wait();
  for (const Creator& creator : creators) CAPSTAN_RETURN_IF_ERROR(creator.status);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchWatchers(const Bench& bench) {
  const int watchers = bench.Count(1000, 100);
  std::vector<double> bare_rate;
  for (int run = 0; run < bench.Runs(5); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(const double once,
                             BareMessagesPerSecond(bench.clock,
                                                   {.streams = watchers,
                                                    .connections = watchers / kStreamsEach,
                                                    .messages = bench.Count(100, 10)},
                                                   TypicalMessage()));
    bare_rate.push_back(once);
  }
  const double bare = Median(bare_rate);
  BenchPlatform platform(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  CAPSTAN_RETURN_IF_ERROR(platform.MakeHeldQueue(kQueue));
  platform.platform().MustCapstan({"project", "create", kProject});
  CAPSTAN_ASSIGN_OR_RETURN(const auto connections,
                           platform.People("scheduler", watchers / kStreamsEach + 1));
  const auto jobs = pb::JobService::NewStub(connections.back());
  // The Project is known to the scheduler's policy once it takes a Job of it.
  if (!AskUntil(bench.clock, absl::Seconds(20), [&] {
        grpc::ClientContext context;
        rpc::SetDeadline(context, absl::Seconds(5));
        pb::Job made;
        return jobs->CreateJob(&context, SmallJob(kQueue, kProject), &made).ok();
      })) {
    return absl::DeadlineExceededError("no Job is taken in the Project");
  }

  Seen seen(bench.clock, watchers);
  std::vector<std::unique_ptr<Watcher>> all;
  for (int i = 0; i < watchers; ++i) {
    all.push_back(std::make_unique<Watcher>(
        &seen, connections[static_cast<size_t>(i) / static_cast<size_t>(kStreamsEach)]));
  }
  absl::Status status = seen.AwaitSynced();
  int64_t number = 0;
  std::vector<double> rate;
  std::vector<double> p99;
  std::vector<double> p50;
  const int64_t burst = bench.Count(100, 10);
  const int singles = bench.Count(20, 3);
  for (int run = 0; run < bench.Runs(5) && status.ok(); ++run) {
    seen.Forget();
    const Stopwatch watch(bench.clock);
    status = MakeJobs(*jobs, number, burst, &seen);
    number += burst;
    if (status.ok()) status = seen.AwaitJobs(burst);
    rate.push_back(static_cast<double>(seen.messages()) / absl::ToDoubleSeconds(watch.Elapsed()));
    std::vector<double> delays;
    for (int i = 0; i < singles && status.ok(); ++i) {
      seen.Forget();
      status = MakeJobs(*jobs, number, 1, &seen);
      ++number;
      if (status.ok()) status = seen.AwaitJobs(1);
      const std::vector<double> these = InUnit(seen.Forget(), absl::Milliseconds(1));
      delays.insert(delays.end(), these.begin(), these.end());
    }
    if (delays.empty()) break;
    p50.push_back(Percentile(delays, 0.5));
    p99.push_back(Percentile(delays, 0.99));
  }
  for (const auto& watcher : all) watcher->Cancel();
  seen.AwaitEnded();
  CAPSTAN_RETURN_IF_ERROR(status);

  const std::string conditions =
      absl::StrCat(watchers, " WatchJobs of one Project over ", connections.size() - 1,
                   " mTLS connections; watchers and all parts on ", Cores(), " cores");
  const std::string what = absl::StrCat(".watchers", watchers);
  bench.report({.name = absl::StrCat("watch_events_per_s", what),
                .values = rate,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = bare,
                .limit_name = "as many streams of bare gRPC with mTLS, 1/s",
                .conditions = absl::StrCat(burst, " Jobs made by ", kCreators,
                                           " at a time, until all have seen all; ", conditions)});
  const double each = 1000.0 * watchers / bare;
  bench.report({.name = absl::StrCat("watch_delay_p99_ms", what),
                .values = p99,
                .unit = "ms",
                .limit = each,
                .limit_name = "a message on each of as many streams of bare gRPC, ms",
                .conditions = absl::StrCat("from sending CreateJob, ", singles,
                                           " Jobs a run one after another; ", conditions)});
  bench.report({.name = absl::StrCat("watch_delay_p50_ms", what),
                .values = p50,
                .unit = "ms",
                .limit = each / 2,
                .limit_name = "a message on each of half as many streams of bare gRPC, ms",
                .conditions = absl::StrCat("from sending CreateJob, ", singles,
                                           " Jobs a run one after another; ", conditions)});
  return absl::OkStatus();
}

}  // namespace capstan::bench
