#include "integration/bench/stream_bench.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "integration/bench/bench_platform.h"
#include "integration/bench/closed_loop.h"
#include "integration/bench/figure.h"
#include "integration/bench/machine_limits.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"

namespace capstan::bench {
namespace {

namespace pb = ::capstan::telemetry::v1;

constexpr size_t kRecord = 1024;
// Below 1 MiB a call with what else a record has.
constexpr int kRecordsACall = 900;
// Tasks that write at once, each to the Stream of its own Job.
constexpr int kPublishers = 8;
// Of an event, and of them in a call: fewer than an outbox that is behind ships in one (256).
constexpr size_t kEvent = 300;
constexpr int kEventsACall = 200;
constexpr double kMegabyte = 1e6;

// Publishers of a Node.
class Publishers {
 public:
  Publishers(const Bench& bench, const std::vector<std::shared_ptr<grpc::Channel>>& channels)
      : streams_(kPublishers),
        grants_(kPublishers),
        sequences_(kPublishers),
        loop_(
            bench.clock,
            [this](int client, grpc::ClientContext* context,
                   const pb::AppendRecordsRequest* request, pb::AppendRecordsResponse* response,
                   std::function<void(grpc::Status)> done) {
              context->AddMetadata(rpc::kPlacementGrant, grants_[static_cast<size_t>(client)]);
              stubs_[static_cast<size_t>(client)]->async()->AppendRecords(
                  context, request, response, std::move(done));
            },
            [this](int client, pb::AppendRecordsRequest* request) { Fill(client, request); }) {
    for (const auto& channel : channels) stubs_.push_back(pb::StreamService::NewStub(channel));
  }

  // From now on these Streams, which nobody has written to.
  absl::Status Use(int run, BenchPlatform& platform) {
    for (int i = 0; i < kPublishers; ++i) {
      const auto at = static_cast<size_t>(i);
      const std::string job = absl::StrCat("projects/default/jobs/b", run, "-", i);
      streams_[at] = job + "/streams/log";
      sequences_[at] = 0;
      CAPSTAN_ASSIGN_OR_RETURN(grants_[at],
                               platform.Grant({.job = job, .uid = platform.random().Uuid4()}));
    }
    return absl::OkStatus();
  }
  const std::string& stream(int publisher) const {
    return streams_[static_cast<size_t>(publisher)];
  }
  // Records published to it.
  int64_t records(int publisher) const { return sequences_[static_cast<size_t>(publisher)]; }

  absl::StatusOr<LoopResult> Run(int publishers, absl::Duration time) {
    return loop_.Run(publishers, time);
  }
  static double Megabytes(const LoopResult& result) {
    return static_cast<double>(result.calls) * kRecordsACall * kRecord / kMegabyte;
  }

 private:
  void Fill(int client, pb::AppendRecordsRequest* request) {
    const auto at = static_cast<size_t>(client);
    if (request->records().empty()) {
      for (int i = 0; i < kRecordsACall; ++i) {
        pb::Record& record = *request->add_records();
        record.set_key("w-0");
        record.set_kind("log");
        record.set_producer("bench");
        record.set_payload(std::string(kRecord, static_cast<char>('a' + i % 26)));
        (*record.mutable_attributes())["rank"] = "0";
      }
    }
    request->set_stream(streams_[at]);
    for (pb::Record& record : *request->mutable_records()) {
      record.set_producer_sequence(++sequences_[at]);
    }
  }

  std::vector<std::string> streams_;
  // The scheduler's word for each that the Job has a Task on the Node.
  std::vector<std::string> grants_;
  std::vector<int64_t> sequences_;
  std::vector<std::unique_ptr<pb::StreamService::Stub>> stubs_;
  ClosedLoop<pb::AppendRecordsRequest, pb::AppendRecordsResponse> loop_;
};

// A person who reads a Stream.
class Reader final : public grpc::ClientReadReactor<pb::ReadRecordsResponse> {
 public:
  Reader(const std::shared_ptr<grpc::Channel>& channel, const std::string& stream, bool follow)
      : stub_(pb::StreamService::NewStub(channel)) {
    request_.set_stream(stream);
    request_.set_follow(follow);
    context_.set_wait_for_ready(true);
    stub_->async()->ReadRecords(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  int64_t records() const { return records_; }
  void Cancel() { context_.TryCancel(); }
  grpc::Status AwaitEnd() {
    ended_.WaitForNotification();
    return status_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    records_ += response_.records_size();
    response_.Clear();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    ended_.Notify();
  }

 private:
  const std::unique_ptr<pb::StreamService::Stub> stub_;
  grpc::ClientContext context_;
  pb::ReadRecordsRequest request_;
  pb::ReadRecordsResponse response_;
  std::atomic<int64_t> records_ = 0;
  grpc::Status status_;
  absl::Notification ended_;
};

// MB/s of so many readers who each read one Stream from its beginning to its end.
absl::StatusOr<double> ReadAll(const Bench& bench, const Publishers& publishers,
                               const std::vector<std::shared_ptr<grpc::Channel>>& channels) {
  const Stopwatch watch(bench.clock);
  std::vector<std::unique_ptr<Reader>> readers;
  for (size_t i = 0; i < channels.size(); ++i) {
    readers.push_back(std::make_unique<Reader>(channels[i], publishers.stream(static_cast<int>(i)),
                                               /*follow=*/false));
  }
  absl::Status status;
  int64_t records = 0;
  for (size_t i = 0; i < readers.size(); ++i) {
    const absl::Status ended = rpc::FromGrpcStatus(readers[i]->AwaitEnd());
    if (status.ok()) status = ended;
    if (status.ok() && readers[i]->records() != publishers.records(static_cast<int>(i))) {
      status =
          absl::DataLossError(absl::StrCat(readers[i]->records(), " records read, ",
                                           publishers.records(static_cast<int>(i)), " published"));
    }
    records += readers[i]->records();
  }
  CAPSTAN_RETURN_IF_ERROR(status);
  return static_cast<double>(records) * kRecord / kMegabyte /
         absl::ToDoubleSeconds(watch.Elapsed());
}

// MB/s from one publisher to one follower, until the follower has everything.
absl::StatusOr<double> Tail(const Bench& bench, Publishers& publishers,
                            const std::shared_ptr<grpc::Channel>& channel) {
  Reader follower(channel, publishers.stream(0), /*follow=*/true);
  const Stopwatch watch(bench.clock);
  const auto published = publishers.Run(1, bench.Time(absl::Seconds(2)));
  const bool arrived = published.ok() && AskUntil(bench.clock, absl::Seconds(60), [&] {
                         return follower.records() >= publishers.records(0);
                       });
  const absl::Duration elapsed = watch.Elapsed();
  follower.Cancel();
  const grpc::Status ended = follower.AwaitEnd();
  CAPSTAN_RETURN_IF_ERROR(published.status());
  if (!arrived) {
    return absl::DeadlineExceededError(absl::StrCat("the follower has ", follower.records(), " of ",
                                                    publishers.records(0),
                                                    " records: ", ended.error_message()));
  }
  return Publishers::Megabytes(*published) / absl::ToDoubleSeconds(elapsed);
}

// A scheduler that ships the events of Jobs of which nobody has heard, a Stream each.
class Shipper {
 public:
  Shipper(const Bench& bench, const std::shared_ptr<grpc::Channel>& channel)
      : stub_(pb::StreamService::NewStub(channel)),
        loop_(
            bench.clock,
            [this](int, grpc::ClientContext* context, const pb::AppendToStreamsRequest* request,
                   pb::AppendToStreamsResponse* response, std::function<void(grpc::Status)> done) {
              stub_->async()->AppendToStreams(
                  context, request, response,
                  [this, response, done = std::move(done)](const grpc::Status& status) {
                    for (const auto& result : response->results())
                      shipped_ += result.has_appended();
                    done(status);
                  });
            },
            [this](int, pb::AppendToStreamsRequest* request) { Fill(request); }) {}

  // Events a second.
  absl::StatusOr<double> Run(absl::Duration time) {
    const int64_t before = shipped_;
    CAPSTAN_ASSIGN_OR_RETURN(const LoopResult result, loop_.Run(1, time));
    if (shipped_ - before != result.calls * kEventsACall) {
      return absl::InternalError(absl::StrCat(shipped_ - before, " events appended, ",
                                              result.calls * kEventsACall, " shipped"));
    }
    return result.PerSecond() * kEventsACall;
  }

 private:
  void Fill(pb::AppendToStreamsRequest* request) {
    request->clear_appends();
    for (int i = 0; i < kEventsACall; ++i) {
      pb::AppendRecordsRequest& append = *request->add_appends();
      append.set_stream(absl::StrCat("projects/default/jobs/e-", ++jobs_, "/streams/events"));
      pb::Record& record = *append.add_records();
      record.set_kind("job_event");
      record.set_key("00000000-0000-4000-8000-000000000000");
      record.set_producer("bench@1");
      record.set_producer_sequence(jobs_);
      record.set_payload(std::string(kEvent, 'e'));
    }
  }

  const std::unique_ptr<pb::StreamService::Stub> stub_;
  int64_t jobs_ = 0;
  std::atomic<int64_t> shipped_ = 0;
  ClosedLoop<pb::AppendToStreamsRequest, pb::AppendToStreamsResponse> loop_;
};

absl::Status BenchEvents(const Bench& bench, BenchPlatform& platform) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Service("scheduler", "telemetry"));
  Shipper shipper(bench, channel);
  // Connects.
  CAPSTAN_RETURN_IF_ERROR(shipper.Run(absl::Milliseconds(50)).status());
  std::vector<double> syncs;
  std::vector<double> shipped;
  for (int run = 0; run < bench.Runs(5); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(
        const double rate,
        SyncsPerSecond(bench.clock, platform.platform().folder(), bench.Time(absl::Seconds(1))));
    syncs.push_back(rate);
    CAPSTAN_ASSIGN_OR_RETURN(const double events, shipper.Run(bench.Time(absl::Milliseconds(500))));
    shipped.push_back(events);
  }
  bench.report({.name = "events_per_s",
                .values = shipped,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = Median(syncs) * kEventsACall,
                .limit_name = "a call in each fdatasync of 4 KiB, 1/s",
                .conditions = absl::StrCat(
                    "one scheduler, ", kEventsACall,
                    " events a call, each to a new Stream, acknowledged once on disk; "
                    "payloads of ",
                    kEvent, " bytes, mTLS; client and all parts on ", Cores(), " cores")});
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchStreams(const Bench& bench) {
  BenchPlatform platform(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, platform.Nodes("telemetry", kPublishers));
  CAPSTAN_ASSIGN_OR_RETURN(const auto people, platform.People("telemetry", kPublishers));
  Publishers publishers(bench, nodes);
  int streams = 0;
  CAPSTAN_RETURN_IF_ERROR(publishers.Use(++streams, platform));
  // Connects.
  CAPSTAN_RETURN_IF_ERROR(publishers.Run(kPublishers, absl::Milliseconds(50)).status());

  std::vector<double> disk;
  std::vector<double> published;
  std::vector<double> read;
  std::vector<double> tailed;
  for (int run = 0; run < bench.Runs(5); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(
        const double synced,
        SyncedMegabytesPerSecond(bench.clock, platform.platform().folder(), bench.Count(256, 16)));
    disk.push_back(synced);
    CAPSTAN_RETURN_IF_ERROR(publishers.Use(++streams, platform));
    CAPSTAN_ASSIGN_OR_RETURN(const LoopResult result,
                             publishers.Run(kPublishers, bench.Time(absl::Seconds(3))));
    published.push_back(Publishers::Megabytes(result) / absl::ToDoubleSeconds(result.elapsed));
    CAPSTAN_ASSIGN_OR_RETURN(const double rate, ReadAll(bench, publishers, people));
    read.push_back(rate);
    CAPSTAN_RETURN_IF_ERROR(publishers.Use(++streams, platform));
    CAPSTAN_ASSIGN_OR_RETURN(const double tail, Tail(bench, publishers, people.front()));
    tailed.push_back(tail);
  }
  const std::string limit_name = "what the disk writes and syncs every 4 MiB, MB/s";
  const auto report = [&](const std::string& name, const std::vector<double>& values, double bar,
                          const std::string& conditions) {
    bench.report({.name = name,
                  .values = values,
                  .unit = "MB/s",
                  .better = Better::kHigher,
                  .limit = Median(disk),
                  .limit_name = limit_name,
                  .bar = bar,
                  .conditions =
                      absl::StrCat(conditions, "; records of 1 KiB, ", kRecordsACall,
                                   " a call, mTLS; clients and all parts on ", Cores(), " cores")});
  };
  report("publish_mb_per_s", published, 100,
         "8 Tasks' logs by a Node, each to a Stream of its own, acknowledged once on disk");
  report("tail_mb_per_s", tailed, 0,
         "one publisher and one follower, until the follower has everything");
  report("read_mb_per_s", read, 0, "8 people read a Stream each from its beginning to its end");
  return BenchEvents(bench, platform);
}

}  // namespace capstan::bench
