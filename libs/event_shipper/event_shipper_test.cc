#include "libs/event_shipper/event_shipper.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/event_shipper/event_record.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/server.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/unary.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan {
namespace {

namespace pb = ::capstan::telemetry::v1;

// Telemetry as its contract says, in memory.
class FakeTelemetry final : public pb::StreamService::CallbackService {
 public:
  explicit FakeTelemetry(auth::Access* access) : access_(access) {}

  grpc::ServerUnaryReactor* AppendRecords(grpc::CallbackServerContext* context,
                                          const pb::AppendRecordsRequest* request,
                                          pb::AppendRecordsResponse* response) override {
    return rpc::HandleUnary(
        context, access_, "/capstan.telemetry.v1.StreamService/AppendRecords", request, response,
        rpc::NothingToValidate(),
        [this](const rpc::Call&, const pb::AppendRecordsRequest& request,
               pb::AppendRecordsResponse*, rpc::Finish finish) {
          absl::MutexLock lock(&mutex_);
          ++single_calls_;
          if (holding_) {
            held_.push_back([this, request, finish = std::move(finish)]() mutable {
              absl::ReleasableMutexLock lock(&mutex_);
              const absl::Status appended = Append(request);
              lock.Release();
              finish(appended);
            });
            return;
          }
          if (fail_next_ > 0) {
            --fail_next_;
            return finish(absl::UnavailableError("down"));
          }
          finish(Append(request));
        });
  }

  grpc::ServerUnaryReactor* AppendToStreams(grpc::CallbackServerContext* context,
                                            const pb::AppendToStreamsRequest* request,
                                            pb::AppendToStreamsResponse* response) override {
    return rpc::HandleUnary(
        context, access_, "/capstan.telemetry.v1.StreamService/AppendToStreams", request, response,
        rpc::NothingToValidate(),
        [this](const rpc::Call&, const pb::AppendToStreamsRequest& request,
               pb::AppendToStreamsResponse* response, rpc::Finish finish) {
          absl::MutexLock lock(&mutex_);
          ++calls_;
          if (holding_ && !old_) {
            held_.push_back([this, request, response, finish = std::move(finish)]() mutable {
              absl::ReleasableMutexLock lock(&mutex_);
              for (const pb::AppendRecordsRequest& append : request.appends()) {
                EXPECT_TRUE(Append(append).ok());
                response->add_results()->mutable_appended();
              }
              lock.Release();
              finish(absl::OkStatus());
            });
            return;
          }
          if (old_) return finish(absl::UnimplementedError(""));
          if (fail_next_ > 0) {
            --fail_next_;
            return finish(absl::UnavailableError("down"));
          }
          std::set<std::string> streams;
          for (const pb::AppendRecordsRequest& append : request.appends()) {
            EXPECT_TRUE(streams.insert(append.stream()).second);
          }
          if (request.appends_size() > 256 || request.ByteSizeLong() > 1 << 20) {
            return finish(absl::InvalidArgumentError("too much"));
          }
          for (const pb::AppendRecordsRequest& append : request.appends()) {
            pb::AppendToStreamsResponse::Result* result = response->add_results();
            const absl::Status appended = Append(append);
            if (appended.ok()) {
              result->mutable_appended();
            } else {
              *result->mutable_error() = rpc::ToStatusProto(appended);
            }
          }
          // A telemetry that knows of something that is neither.
          if (silent_) response->mutable_results(0)->clear_result();
          finish(absl::OkStatus());
        });
  }

  void FailNext(int calls) {
    absl::MutexLock lock(&mutex_);
    fail_next_ = calls;
  }
  // The disk takes nothing of this Stream.
  void FailStream(const std::string& stream) {
    absl::MutexLock lock(&mutex_);
    failing_ = stream;
  }
  // Of the version before AppendToStreams.
  void BeOld(bool old) {
    absl::MutexLock lock(&mutex_);
    old_ = old;
  }
  void BeSilent(bool silent) {
    absl::MutexLock lock(&mutex_);
    silent_ = silent;
  }
  // From now on calls wait until they are let go.
  void Hold() {
    absl::MutexLock lock(&mutex_);
    holding_ = true;
  }
  void AwaitHeld(size_t calls) {
    absl::MutexLock lock(&mutex_);
    const auto are_held = [this, calls]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return held_.size() >= calls;
    };
    mutex_.Await(absl::Condition(&are_held));
  }
  // Those that wait are answered, in their order; later ones do not wait.
  void LetGo() {
    std::vector<absl::AnyInvocable<void()>> held;
    {
      absl::MutexLock lock(&mutex_);
      holding_ = false;
      held.swap(held_);
    }
    for (auto& answer : held) answer();
  }
  std::vector<std::string> kept() {
    absl::MutexLock lock(&mutex_);
    return kept_;
  }
  // Calls of AppendToStreams, and of AppendRecords.
  int calls() {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }
  int single_calls() {
    absl::MutexLock lock(&mutex_);
    return single_calls_;
  }

 private:
  absl::Status Append(const pb::AppendRecordsRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request.stream() == failing_) return absl::ResourceExhaustedError("full");
    if (request.ByteSizeLong() > 1 << 20) return absl::InvalidArgumentError("too much");
    for (const pb::Record& record : request.records()) {
      if (record.kind() == "bad") return absl::InvalidArgumentError("bad kind");
    }
    for (const pb::Record& record : request.records()) {
      int64_t& highest = highest_[request.stream()];
      if (record.producer_sequence() <= highest) continue;
      highest = record.producer_sequence();
      kept_.push_back(
          absl::StrCat(request.stream(), " ", record.producer(), " ", record.payload()));
    }
    return absl::OkStatus();
  }

  auth::Access* const access_;
  absl::Mutex mutex_;
  int fail_next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string failing_ ABSL_GUARDED_BY(mutex_);
  bool old_ ABSL_GUARDED_BY(mutex_) = false;
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int single_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int64_t> highest_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> kept_ ABSL_GUARDED_BY(mutex_);
};

class EventShipperTest : public testing::Test {
 protected:
  EventShipperTest() {
    rpc::ServerConfig config;
    config.services = {rpc::Registered<pb::StreamService>(&telemetry_)};
    auto server = rpc::Server::Start(config);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    OnStrand([this] {
      shipper_ = std::make_unique<EventShipper>(
          server_->InProcessChannel(), &strand_, &logger_,
          EventShipper::Options{.producer = "scheduler", .incarnation = 7});
    });
  }
  ~EventShipperTest() override {
    OnStrand([this] {
      outbox_.reset();
      queue_.reset();
      store_.reset();
      shipper_.reset();
    });
    server_->Shutdown(absl::ZeroDuration());
    strand_.Stop();
  }

  void OnStrand(absl::AnyInvocable<void()> task) {
    absl::Notification done;
    strand_.Post([&] {
      task();
      done.Notify();
    });
    done.WaitForNotification();
  }

  static store::OutboxRecord Record(int64_t sequence, const std::string& stream,
                                    const std::string& payload, const std::string& kind = "k") {
    pb::Record record;
    record.set_kind(kind);
    record.set_payload(payload);
    return {sequence, OutboxPayload(stream, std::move(record))};
  }

  absl::Status Ship(const std::vector<store::OutboxRecord>& records) {
    absl::Notification done;
    absl::Status result;
    strand_.Post([&] {
      shipper_->Ship(records, [&](absl::Status status) {
        result = std::move(status);
        done.Notify();
      });
    });
    done.WaitForNotification();
    return result;
  }

  SystemClock clock_;
  ThreadStrand strand_{"shipper", &clock_};
  log::TestingSink sink_;
  log::Logger logger_{"test", &clock_, &sink_};
  auth::FakeAccess access_;
  FakeTelemetry telemetry_{&access_};
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<EventShipper> shipper_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<store::CommitQueue> queue_;
  std::unique_ptr<store::Outbox> outbox_;
};

TEST_F(EventShipperTest, SendsEachStreamInOrder) {
  EXPECT_TRUE(Ship({}).ok());
  EXPECT_TRUE(Ship({Record(1, "a", "1"), Record(2, "b", "2"), Record(3, "a", "3")}).ok());
  EXPECT_EQ(telemetry_.kept(),
            (std::vector<std::string>{"a scheduler@7 1", "a scheduler@7 3", "b scheduler@7 2"}));
}

TEST_F(EventShipperTest, AFailureIsTheOutboxesToRepeat) {
  telemetry_.FailNext(1);
  EXPECT_EQ(Ship({Record(1, "a", "1")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Ship({Record(1, "a", "1")}).ok());
  EXPECT_EQ(telemetry_.kept().size(), 1u);
}

TEST_F(EventShipperTest, AMalformedRecordDoesNotBlockTheOthers) {
  EXPECT_TRUE(Ship({Record(1, "a", "1"),
                    Record(2, "a", "2", "bad"),
                    Record(3, "a", "3"),
                    {4, "\xff not a request"},
                    Record(5, "a", "5")})
                  .ok());
  EXPECT_EQ(telemetry_.kept(),
            (std::vector<std::string>{"a scheduler@7 1", "a scheduler@7 3", "a scheduler@7 5"}));
  OnStrand([this] { EXPECT_EQ(shipper_->refused(), 2); });
}

TEST_F(EventShipperTest, ManyStreamsGoInOneCall) {
  std::vector<store::OutboxRecord> records;
  std::vector<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    records.push_back(Record(i + 1, absl::StrCat("s", i), absl::StrCat(i)));
    expected.push_back(absl::StrCat("s", i, " scheduler@7 ", i));
  }
  EXPECT_TRUE(Ship(records).ok());
  EXPECT_EQ(telemetry_.kept(), expected);
  EXPECT_EQ(telemetry_.calls(), 1);
  EXPECT_EQ(telemetry_.single_calls(), 0);
}

TEST_F(EventShipperTest, WhatOneCallDoesNotTakeGoesInSeveral) {
  std::vector<store::OutboxRecord> streams;
  for (int i = 0; i < 600; ++i) streams.push_back(Record(i + 1, absl::StrCat("s", i), "x"));
  EXPECT_TRUE(Ship(streams).ok());
  EXPECT_EQ(telemetry_.kept().size(), 600u);
  EXPECT_EQ(telemetry_.calls(), 3);
  // 256 of 4 KiB each are more than 1 MiB by what stands around them.
  std::vector<store::OutboxRecord> bytes;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(Record(1000 + i, absl::StrCat("s", i), std::string(4096, 'x')));
  }
  EXPECT_TRUE(Ship(bytes).ok());
  EXPECT_EQ(telemetry_.kept().size(), 856u);
  EXPECT_EQ(telemetry_.calls(), 5);
  EXPECT_EQ(telemetry_.single_calls(), 0);
}

TEST_F(EventShipperTest, WhatIsTooMuchForAnyCallIsGivenUpAlone) {
  EXPECT_TRUE(Ship({Record(1, "a", "1"), Record(2, "b", std::string(2 << 20, 'x')),
                    Record(3, "b", "3"), Record(4, "c", "4")})
                  .ok());
  EXPECT_EQ(telemetry_.kept(),
            (std::vector<std::string>{"a scheduler@7 1", "b scheduler@7 3", "c scheduler@7 4"}));
  OnStrand([this] { EXPECT_EQ(shipper_->refused(), 1); });
}

TEST_F(EventShipperTest, ARefusedStreamStopsNoOther) {
  EXPECT_TRUE(Ship({Record(1, "a", "1"), Record(2, "b", "2", "bad"), Record(3, "c", "3"),
                    Record(4, "d", "4", "bad"), Record(5, "d", "5"), Record(6, "e", "6"),
                    Record(7, "d", "7")})
                  .ok());
  EXPECT_EQ(telemetry_.kept(),
            (std::vector<std::string>{"a scheduler@7 1", "c scheduler@7 3", "e scheduler@7 6",
                                      "d scheduler@7 5", "d scheduler@7 7"}));
  EXPECT_EQ(telemetry_.calls(), 1);
  // The one record of `b` need not be asked about again.
  EXPECT_EQ(telemetry_.single_calls(), 2);
  OnStrand([this] { EXPECT_EQ(shipper_->refused(), 2); });
}

TEST_F(EventShipperTest, AStreamThatFailsBringsAllAgainAndNothingTwice) {
  telemetry_.FailStream("b");
  const std::vector<store::OutboxRecord> records = {
      Record(1, "a", "1"), Record(2, "b", "2"), Record(3, "c", "3", "bad"),
      Record(4, "d", "4"), Record(5, "a", "5"), Record(6, "b", "6")};
  EXPECT_EQ(Ship(records).code(), absl::StatusCode::kResourceExhausted);
  OnStrand([this] { EXPECT_EQ(shipper_->refused(), 0) << "it comes again with the others"; });
  telemetry_.FailStream("");
  EXPECT_TRUE(Ship(records).ok());
  EXPECT_EQ(telemetry_.kept(),
            (std::vector<std::string>{"a scheduler@7 1", "a scheduler@7 5", "d scheduler@7 4",
                                      "b scheduler@7 2", "b scheduler@7 6"}));
  OnStrand([this] { EXPECT_EQ(shipper_->refused(), 1); });
}

TEST_F(EventShipperTest, AnAppendWithoutAResultHasNotSucceeded) {
  telemetry_.BeSilent(true);
  EXPECT_EQ(Ship({Record(1, "a", "1"), Record(2, "b", "2")}).code(), absl::StatusCode::kInternal);
  telemetry_.BeSilent(false);
  EXPECT_TRUE(Ship({Record(1, "a", "1"), Record(2, "b", "2")}).ok());
  EXPECT_EQ(telemetry_.kept().size(), 2u);
}

TEST_F(EventShipperTest, AnOldTelemetryGetsACallForEachStreamUntilItIsUpgraded) {
  telemetry_.BeOld(true);
  std::vector<store::OutboxRecord> records;
  for (int i = 0; i < 300; ++i) {
    records.push_back(
        Record(i + 1, absl::StrCat("s", i % 290), absl::StrCat(i), i == 200 ? "bad" : "k"));
  }
  EXPECT_TRUE(Ship(records).ok());
  EXPECT_EQ(telemetry_.kept().size(), 299u);
  EXPECT_EQ(telemetry_.calls(), 1);
  EXPECT_EQ(telemetry_.single_calls(), 290);
  telemetry_.FailNext(1);
  EXPECT_EQ(Ship(records).code(), absl::StatusCode::kUnavailable);
  telemetry_.BeOld(false);
  const int single_calls = telemetry_.single_calls();
  records.push_back(Record(1000, "s1", "new"));
  EXPECT_TRUE(Ship(records).ok());
  EXPECT_EQ(telemetry_.kept().size(), 300u);
  EXPECT_EQ(telemetry_.single_calls(), single_calls);
}

// A leader that has lost its term, and leads again before telemetry has answered, has a new outbox.
TEST_F(EventShipperTest, AShipTakesThePlaceOfOneThatIsUnderWay) {
  for (const bool old : {false, true}) {
    SCOPED_TRACE(old);
    telemetry_.BeOld(old);
    const int64_t first = old ? 1001 : 1;
    const std::vector<store::OutboxRecord> records = {Record(first, "a", "1"),
                                                      Record(first + 1, "b", "2")};
    const size_t before = telemetry_.kept().size();
    telemetry_.Hold();
    absl::Notification replaced;
    absl::Notification done;
    OnStrand([&] {
      shipper_->Ship(records, [&](const absl::Status& status) {
        EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
        replaced.Notify();
      });
    });
    telemetry_.AwaitHeld(1);
    std::vector<store::OutboxRecord> more = records;
    more.push_back(Record(first + 2, "c", "3"));
    OnStrand([&] {
      shipper_->Ship(more, [&](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        // All of them are there by then.
        EXPECT_EQ(telemetry_.kept().size(), before + 3);
        done.Notify();
      });
    });
    EXPECT_TRUE(replaced.HasBeenNotified());
    telemetry_.AwaitHeld(2);
    telemetry_.LetGo();
    done.WaitForNotification();
    EXPECT_TRUE(Ship(more).ok());
    EXPECT_EQ(telemetry_.kept().size(), before + 3);
  }
}

TEST_F(EventShipperTest, EventsGoFromTheTransactionToTelemetryOnce) {
  telemetry_.FailNext(2);
  absl::Notification all;
  OnStrand([&] {
    store_ = std::make_unique<store::MemoryStore>(&strand_);
    queue_ = std::make_unique<store::CommitQueue>(store_.get(), &strand_, absl::nullopt);
    outbox_ = std::make_unique<store::Outbox>(
        store_.get(), &strand_, queue_.get(), 1,
        store::Outbox::Options{.prefix = "/outbox/", .retry_first = absl::Milliseconds(1)},
        [&](const std::vector<store::OutboxRecord>& records, store::DoneCallback taken) {
          shipper_->Ship(records, [&, taken = std::move(taken)](absl::Status status) mutable {
            taken(std::move(status));
            if (telemetry_.kept().size() == 100 && !all.HasBeenNotified()) all.Notify();
          });
        });
    outbox_->Start();
    for (int i = 0; i < 100; ++i) {
      event::v1::JobEvent event;
      event.set_job("projects/p/jobs/j");
      event.set_job_uid("u");
      event.set_state(absl::StrCat(i));
      queue_->Submit({outbox_->Add(OutboxPayload(event))}, {}, [](absl::StatusOr<int64_t>) {});
    }
  });
  ASSERT_TRUE(all.WaitForNotificationWithTimeout(absl::Seconds(60)));
  const std::vector<std::string> kept = telemetry_.kept();
  for (int i = 0; i < 100; ++i) {
    const std::string begin = "projects/p/jobs/j/streams/events scheduler@7 ";
    event::v1::JobEvent event;
    ASSERT_TRUE(event.ParseFromString(kept[i].substr(begin.size())));
    EXPECT_EQ(event.state(), absl::StrCat(i));
  }
}

}  // namespace
}  // namespace capstan
