#include "libs/process/target_reporter.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "gtest/gtest.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/process/loopback_network.h"
#include "libs/random/random.h"
#include "libs/rpc/server.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::process {
namespace {

using ::testing::HasSubstr;

// Takes reports as it is told.
class FakeTelemetry final : public telemetry::v1::ScrapeTargetService::CallbackService {
 public:
  FakeTelemetry() {
    rpc::ServerConfig config;
    config.services = {rpc::Registered<telemetry::v1::ScrapeTargetService>(this)};
    server_ = rpc::Server::Start(config).value();
  }
  ~FakeTelemetry() override { server_ = nullptr; }

  std::shared_ptr<grpc::Channel> channel() { return server_->InProcessChannel(); }
  void Answer(grpc::Status status) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(status);
  }
  telemetry::v1::ReportScrapeTargetRequest Await(int reports) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return reports_ >= reports; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30)));
    return last_;
  }

  grpc::ServerUnaryReactor* ReportScrapeTarget(
      grpc::CallbackServerContext* context, const telemetry::v1::ReportScrapeTargetRequest* request,
      telemetry::v1::ReportScrapeTargetResponse* response) override {
    absl::MutexLock lock(&mutex_);
    ++reports_;
    last_ = *request;
    response->mutable_repeat_after()->set_seconds(1);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(answer_);
    return reactor;
  }

 private:
  std::unique_ptr<rpc::Server> server_;
  absl::Mutex mutex_;
  grpc::Status answer_ ABSL_GUARDED_BY(mutex_);
  int reports_ ABSL_GUARDED_BY(mutex_) = 0;
  telemetry::v1::ReportScrapeTargetRequest last_ ABSL_GUARDED_BY(mutex_);
};

// A sink that can be waited on.
class AwaitableSink final : public log::Sink {
 public:
  void Write(const log::Record& record) override {
    absl::MutexLock lock(&mutex_);
    records_.push_back(record);
  }
  std::vector<log::Record> AwaitRecord() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !records_.empty(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&any), absl::Seconds(30)));
    return records_;
  }
  size_t size() {
    absl::MutexLock lock(&mutex_);
    return records_.size();
  }

 private:
  absl::Mutex mutex_;
  std::vector<log::Record> records_ ABSL_GUARDED_BY(mutex_);
};

class TargetReporterTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::shared_ptr<grpc::Channel>> replicas) {
    telemetry::v1::ReportScrapeTargetRequest request;
    request.set_metrics_address("10.0.1.1:9106");
    request.set_loopback_network(LoopbackNetwork());
    strand_.Post([this, replicas = std::move(replicas), request] {
      reporter_ = std::make_unique<TargetReporter>(replicas, request, &strand_, &random_, &logger_,
                                                   &registry_);
      reporter_->Start();
    });
  }
  ~TargetReporterTest() override {
    strand_.Stop();
    reporter_ = nullptr;
  }

  SystemClock clock_;
  AwaitableSink sink_;
  log::Logger logger_{"executor", &clock_, &sink_};
  metrics::Registry registry_{"process"};
  Random random_{7};
  std::unique_ptr<TargetReporter> reporter_;
  ThreadStrand strand_{"auth", &clock_};
};

TEST_F(TargetReporterTest, TellsEveryReplicaAgainAndAgain) {
  FakeTelemetry one;
  FakeTelemetry two;
  Start({one.channel(), two.channel()});
  EXPECT_EQ(one.Await(2).metrics_address(), "10.0.1.1:9106");
  EXPECT_THAT(two.Await(2).loopback_network(), HasSubstr("/net:["));
  EXPECT_EQ(sink_.size(), 0u);
}

TEST_F(TargetReporterTest, SaysOnceWhyItIsNotListed) {
  FakeTelemetry telemetry;
  telemetry.Answer(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "unreachable from here"));
  Start({telemetry.channel()});
  EXPECT_EQ(sink_.AwaitRecord()[0].level, log::Level::kWarning);
  strand_.Stop();
  EXPECT_EQ(sink_.size(), 1u);
  EXPECT_EQ(registry_.AddCounter("target_reports_total", "", {{"outcome", "failed"}}).value(), 1);
}

}  // namespace
}  // namespace capstan::process
