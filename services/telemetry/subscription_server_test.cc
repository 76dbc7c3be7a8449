// Subscriptions over the wire, on real files.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/spiffe_id.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_connection.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.grpc.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/server.h"

namespace capstan::telemetry {
namespace {

namespace fs = ::std::filesystem;

constexpr char kName[] = "projects/p/subscriptions/s";
constexpr char kLog[] = "projects/p/jobs/j/streams/log";
constexpr char kOther[] = "projects/p/jobs/z/streams/log";

class FakeAudit final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    absl::MutexLock lock(&mutex_);
    acts_.push_back(absl::StrCat(entry.principal, " ", entry.act, " ", entry.resource));
    return absl::OkStatus();
  }
  std::vector<std::string> acts() const {
    absl::MutexLock lock(&mutex_);
    return acts_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> acts_ ABSL_GUARDED_BY(mutex_);
};

class SubscriptionServerTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.folder = folder_.path() + "/streams";
    config_.subscriptions_file = folder_.path() + "/subscriptions.sqlite";
    config_.targets_file = folder_.path() + "/targets";
    config_.loopback_network = "here";
    Start();
  }
  void Start() {
    server_.reset();
    ServerDeps deps;
    deps.strand = &strand_;
    deps.access = &access_;
    deps.logger = &logger_;
    deps.metrics = &metrics_;
    deps.audit = &audit_;
    auto server = Server::Create(config_, deps);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    streams_ = v1::StreamService::NewStub(server_->InProcessChannelForTest());
    stub_ = v1::SubscriptionService::NewStub(server_->InProcessChannelForTest());
  }

  void Append(const std::string& payload, const std::string& stream = kLog) {
    access_.CallAs(auth::SpiffeId::Node("d", "local", "a"));
    grpc::ClientContext context;
    v1::AppendRecordsRequest request;
    request.set_stream(stream);
    v1::Record& record = *request.add_records();
    record.set_kind("log");
    record.set_payload(payload);
    record.set_producer("shim");
    record.set_producer_sequence(++sequence_);
    v1::AppendRecordsResponse response;
    const grpc::Status status = streams_->AppendRecords(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    access_.CallAs(auth::SpiffeId::Person("d", "1000"));
  }
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::SubscriptionService::Stub::*method)(
                                    grpc::ClientContext*, const Request&, Response*),
                                const Request& request) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return rpc::FromGrpcStatus(status);
    return response;
  }
  absl::StatusOr<v1::Subscription> Create() {
    v1::CreateSubscriptionRequest request;
    request.set_parent("projects/p");
    request.set_subscription_id("s");
    request.set_stream(kLog);
    return Call(&v1::SubscriptionService::Stub::CreateSubscription, request);
  }
  absl::StatusOr<v1::Subscription> Get() {
    v1::GetSubscriptionRequest request;
    request.set_name(kName);
    return Call(&v1::SubscriptionService::Stub::GetSubscription, request);
  }
  absl::Status Acknowledge(int64_t offset, int64_t generation = 0) {
    v1::AcknowledgeRequest request;
    request.set_name(kName);
    request.set_offset(offset);
    request.set_reader_generation(generation);
    return Call(&v1::SubscriptionService::Stub::Acknowledge, request).status();
  }
  // What a reader gets who does not stay; an error is the only line.
  std::vector<std::string> Read() {
    grpc::ClientContext context;
    v1::SubscribeRequest request;
    request.set_name(kName);
    const auto reader = stub_->Subscribe(&context, request);
    v1::SubscribeResponse response;
    std::vector<std::string> lines;
    while (reader->Read(&response)) {
      EXPECT_GT(response.reader_generation(), 0);
      for (const v1::Record& record : response.records()) lines.push_back(record.payload());
    }
    last_ = rpc::FromGrpcStatus(reader->Finish());
    if (!last_.ok()) lines = {status::Reason(last_)};
    return lines;
  }

  SystemClock clock_;
  TemporaryFolder folder_;
  ThreadStrand strand_{"telemetry", &clock_};
  log::TestingSink sink_;
  log::Logger logger_{"telemetry", &clock_, &sink_};
  metrics::Registry metrics_{"telemetry"};
  auth::FakeAccess access_;
  FakeAudit audit_;
  ServerConfig config_;
  int64_t sequence_ = 0;
  absl::Status last_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::StreamService::Stub> streams_;
  std::unique_ptr<v1::SubscriptionService::Stub> stub_;
};

using Lines = std::vector<std::string>;

TEST_F(SubscriptionServerTest, ItGoesOnWhereItWasAcknowledged) {
  for (const char* line : {"a", "b", "c"}) Append(line);
  ASSERT_TRUE(Create().ok());
  EXPECT_EQ(status::Reason(Create().status()), "SUBSCRIPTION_EXISTS");
  EXPECT_EQ(Read(), (Lines{"a", "b", "c"}));
  EXPECT_EQ(Read(), (Lines{"a", "b", "c"})) << "nothing was acknowledged";
  ASSERT_TRUE(Acknowledge(2, 2).ok());
  EXPECT_EQ(status::Reason(Acknowledge(3, 1)), "READER_REPLACED");
  Start();
  EXPECT_EQ(Read(), Lines{"c"});
  ASSERT_TRUE(Acknowledge(3, 3).ok());
  EXPECT_EQ(Read(), Lines());
  Append("d");
  EXPECT_EQ(Read(), Lines{"d"});
  const auto shown = Get();
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->acknowledged_offset(), 3);
  EXPECT_EQ(shown->lag_records(), 1);
  v1::ListSubscriptionsRequest list;
  list.set_parent("projects/p");
  EXPECT_EQ(Call(&v1::SubscriptionService::Stub::ListSubscriptions, list)->subscriptions_size(), 1);
  EXPECT_EQ(audit_.acts(),
            Lines{absl::StrCat("spiffe://d/person/1000 "
                               "/capstan.telemetry.v1.SubscriptionService/CreateSubscription ",
                               kName)});
}

TEST_F(SubscriptionServerTest, AFollowerGetsWhatComesUntilAnotherTakesOver) {
  Append("a");
  ASSERT_TRUE(Create().ok());
  v1::SubscribeRequest request;
  request.set_name(kName);
  request.set_follow(true);
  grpc::ClientContext context;
  const auto first = stub_->Subscribe(&context, request);
  v1::SubscribeResponse response;
  Lines lines;
  const auto read_to = [&](auto& reader, size_t count) {
    while (lines.size() < count && reader->Read(&response)) {
      for (const v1::Record& record : response.records()) lines.push_back(record.payload());
    }
  };
  read_to(first, 1);
  Append("b");
  read_to(first, 2);
  EXPECT_EQ(lines, (Lines{"a", "b"}));
  ASSERT_TRUE(Acknowledge(1, response.reader_generation()).ok());
  grpc::ClientContext other_context;
  const auto second = stub_->Subscribe(&other_context, request);
  lines.clear();
  read_to(second, 1);
  EXPECT_EQ(lines, Lines{"b"});
  while (first->Read(&response)) EXPECT_EQ(response.records_size(), 0);
  EXPECT_EQ(status::Reason(rpc::FromGrpcStatus(first->Finish())), "READER_REPLACED");
  v1::DeleteSubscriptionRequest remove;
  remove.set_name(kName);
  ASSERT_TRUE(Call(&v1::SubscriptionService::Stub::DeleteSubscription, remove).ok());
  while (second->Read(&response)) EXPECT_EQ(response.records_size(), 0);
  EXPECT_EQ(status::Reason(rpc::FromGrpcStatus(second->Finish())), "SUBSCRIPTION_DELETED");
  EXPECT_TRUE(absl::IsNotFound(Get().status()));
}

TEST_F(SubscriptionServerTest, WhoseRightIsTakenAwayReadsNoMore) {
  Append("a");
  ASSERT_TRUE(Create().ok());
  access_.Refuse(status::PermissionDenied("subscriptions.read", kName));
  EXPECT_TRUE(absl::IsPermissionDenied(Get().status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Acknowledge(1)));
  Read();
  EXPECT_TRUE(absl::IsPermissionDenied(last_));
  access_.Refuse(absl::OkStatus());
  EXPECT_EQ(Read(), Lines{"a"});
}

TEST_F(SubscriptionServerTest, WhatRetentionHasPassedIsAnError) {
  // Two segments and a bit.
  const std::string mebibyte(900 << 10, 'x');
  for (int i = 0; i < 40; ++i) Append(absl::StrCat(i, mebibyte));
  ASSERT_TRUE(Create().ok());
  ASSERT_TRUE(Acknowledge(2).ok());
  config_.keep_bytes = 1 << 20;
  Start();
  // Retention goes on beside the calls.
  auto shown = Get();
  while (shown.ok() && shown->lost_records() == 0) shown = Get();
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(Read(), Lines{"CURSOR_EXPIRED"});
  const auto info = status::GetErrorInfo(last_);
  ASSERT_TRUE(info.has_value());
  shown = Get();
  EXPECT_EQ(info->metadata.at("first_offset"), absl::StrCat(shown->first_kept_offset()));
  EXPECT_EQ(info->metadata.at("lost_records"), absl::StrCat(shown->first_kept_offset() - 3));
  v1::SeekSubscriptionRequest seek;
  seek.set_name(kName);
  seek.set_next_offset(shown->first_kept_offset());
  ASSERT_TRUE(Call(&v1::SubscriptionService::Stub::SeekSubscription, seek).ok());
  const Lines rest = Read();
  EXPECT_EQ(rest.size(), static_cast<size_t>(40 - shown->first_kept_offset() + 1));
  EXPECT_EQ(rest.front().substr(0, 3),
            absl::StrCat(shown->first_kept_offset() - 1, "x").substr(0, 3));
}

// Else what is appended later passes the cursor, and a reader would begin in its midst.
TEST_F(SubscriptionServerTest, AStreamThatBeganAnewIsNeverReadFromItsMidst) {
  for (const char* line : {"a", "b", "c"}) Append(line);
  ASSERT_TRUE(Create().ok());
  ASSERT_TRUE(Acknowledge(3).ok());
  server_.reset();
  fs::remove_all(config_.folder);
  Start();
  ASSERT_FALSE(sink_.records().empty());
  EXPECT_EQ(sink_.records().back().level, log::Level::kError);
  for (const char* line : {"v", "w", "x", "y", "z"}) Append(line);
  for (int starts = 0; starts < 2; ++starts) {
    EXPECT_EQ(Read(), Lines{"CURSOR_BEYOND_END"});
    EXPECT_EQ(status::Reason(Acknowledge(4)), "CURSOR_BEYOND_END");
    EXPECT_TRUE(Get()->beyond_end());
    EXPECT_EQ(Get()->lag_records(), 5);
    Start();
  }
  v1::SeekSubscriptionRequest seek;
  seek.set_name(kName);
  seek.set_position(v1::CURSOR_POSITION_OLDEST);
  ASSERT_TRUE(Call(&v1::SubscriptionService::Stub::SeekSubscription, seek).ok());
  EXPECT_EQ(Read(), (Lines{"v", "w", "x", "y", "z"}));
  EXPECT_FALSE(Get()->beyond_end());
}

// A Stream that no one writes is dropped whole, and would begin anew at 1 below the cursor.
TEST_F(SubscriptionServerTest, OffsetsGoOnHoweverOldTheStreamIs) {
  Append("a");
  Append("b");
  Append("other", kOther);
  ASSERT_TRUE(Create().ok());
  ASSERT_TRUE(Acknowledge(2).ok());
  server_.reset();
  auto rows = store::SqliteConnection::Open(config_.folder + "/small.sqlite", true, false);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_TRUE((*rows)->Execute("UPDATE pieces SET write_ns = 0").ok());
  Start();
  // Both came before retention looked.
  while ((*rows)->Number("SELECT count(*) FROM pieces").value_or(0) > 2) ASSERT_TRUE(Get().ok());
  Append("c");
  EXPECT_EQ(Get()->last_offset(), 3);
  EXPECT_EQ(Read(), Lines{"c"});
}

}  // namespace
}  // namespace capstan::telemetry
