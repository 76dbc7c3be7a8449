#include "services/telemetry/subscription_engine.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/core/stream_rules.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/ports/fake_subscription_store.h"
#include "services/telemetry/ports/streams.h"
#include "services/telemetry/ports/subscriptions.h"

namespace capstan::telemetry {
namespace {

constexpr char kName[] = "projects/p/subscriptions/s";
constexpr char kLog[] = "projects/p/jobs/j/streams/log";
constexpr char kPerson[] = "spiffe://test/person/1000";

// One Stream as the disk has it.
struct StreamOnDisk {
  int64_t first = 1;
  std::deque<v1::Record> records;

  int64_t next() const { return first + static_cast<int64_t>(records.size()); }
  void Append(const std::string& payload, const std::string& kind = "log") {
    v1::Record record;
    record.set_offset(next());
    record.set_kind(kind);
    record.set_producer("shim");
    record.set_payload(payload);
    records.push_back(std::move(record));
  }
  // At least one record stays.
  void Drop(int64_t up_to) {
    while (records.size() > 1 && first <= up_to) {
      records.pop_front();
      ++first;
    }
  }
};
using StreamDisk = std::map<std::string, StreamOnDisk>;

// Streams as the engine over files serves them, a few records at a time.
class FakeStreams final : public Streams {
 public:
  FakeStreams(StreamDisk* disk, Strand* strand, size_t piece)
      : disk_(disk), strand_(strand), piece_(piece) {}

  void Append(std::string, std::vector<v1::Record>,
              absl::AnyInvocable<void(absl::StatusOr<Appended>)>) override {}
  void OpenReader(v1::ReadRecordsRequest request, std::unique_ptr<RecordSink> sink) override {
    const int id = next_id_++;
    Reader& reader = readers_[id];
    reader.position = request.start_offset();
    reader.request = std::move(request);
    reader.sink = std::move(sink);
    reader.sink->NotifyClosed([this, id] { readers_.erase(id); });
    Later([this, id] { Pump(id); });
  }
  void FindExtent(std::string stream,
                  absl::AnyInvocable<void(absl::StatusOr<StreamExtent>)> done) override {
    ++lookups_;
    Later([this, stream = std::move(stream), done = std::move(done)]() mutable {
      if (!failure_.ok()) return done(failure_);
      const auto it = disk_->find(stream);
      if (it == disk_->end()) return done(StreamExtent());
      done(StreamExtent{it->second.first, it->second.next()});
    });
  }
  void KeepNewest(std::set<std::string> streams) override { kept_ = std::move(streams); }

  // As after an append.
  void PumpAll() {
    for (const auto& [id, reader] : std::map<int, int64_t>(Ids())) Pump(id);
  }
  // From now on what is read waits for Step.
  void Hold() { holding_ = true; }
  void Step() {
    if (waiting_.empty()) return;
    strand_->Post(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  void Fail(absl::Status failure) { failure_ = std::move(failure); }
  const std::set<std::string>& kept() const { return kept_; }
  int lookups() const { return lookups_; }
  size_t readers() const { return readers_.size(); }

 private:
  struct Reader {
    v1::ReadRecordsRequest request;
    std::unique_ptr<RecordSink> sink;
    int64_t position = 1;
    bool waiting = false;
  };

  void Later(Strand::Task task) {
    if (!holding_) return strand_->Post(std::move(task));
    waiting_.push_back(std::move(task));
  }
  std::map<int, int64_t> Ids() const {
    std::map<int, int64_t> ids;
    for (const auto& [id, reader] : readers_) ids[id] = reader.position;
    return ids;
  }
  void Pump(int id) {
    const auto it = readers_.find(id);
    if (it == readers_.end() || it->second.waiting) return;
    Reader& reader = it->second;
    const StreamOnDisk& stream = (*disk_)[reader.request.stream()];
    v1::ReadRecordsResponse response;
    int64_t position = reader.position;
    if (position < stream.first) {
      *response.add_records() =
          GapRecordBefore(stream.first, stream.first - position, /*dropped_bytes=*/0);
      position = stream.first;
    }
    for (size_t i = 0; i < piece_ && position < stream.next(); ++i, ++position) {
      *response.add_records() = stream.records[position - stream.first];
    }
    response.set_caught_up(position >= stream.next());
    const absl::Status written = reader.sink->Write(response);
    if (absl::IsResourceExhausted(written)) {
      reader.waiting = true;
      reader.sink->NotifyDrained([this, id] {
        const auto drained = readers_.find(id);
        if (drained == readers_.end()) return;
        drained->second.waiting = false;
        Pump(id);
      });
      return;
    }
    if (!written.ok()) {
      readers_.erase(it);
      return;
    }
    reader.position = position;
    if (position < stream.next()) {
      Later([this, id] { Pump(id); });
    } else if (!reader.request.follow()) {
      reader.sink->Finish(absl::OkStatus());
      readers_.erase(it);
    }
  }

  StreamDisk* const disk_;
  Strand* const strand_;
  const size_t piece_;
  std::map<int, Reader> readers_;
  std::set<std::string> kept_;
  absl::Status failure_;
  bool holding_ = false;
  std::deque<Strand::Task> waiting_;
  int next_id_ = 1;
  int lookups_ = 0;
};

class FakeAudit final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    if (failure.ok()) entries.push_back(entry);
    return failure;
  }
  std::vector<audit::AuditEntry> entries;
  absl::Status failure;
};

// One end of a call, which outlives the service.
struct Client {
  int64_t generation = 0;
  std::vector<v1::Record> records;
  bool caught_up = false;
  absl::optional<absl::Status> end;
  // The service is gone without a word.
  bool lost = false;
  // Takes nothing while it is set.
  bool full = false;
  // Writes until it is full by itself; below zero never.
  int room = -1;
  // Its end was looked at.
  bool seen = false;
  Strand* strand = nullptr;
  Strand::Task drained;
  Strand::Task closed;

  bool open() const { return !end.has_value() && !lost; }
  std::vector<int64_t> Offsets() const {
    std::vector<int64_t> offsets;
    for (const v1::Record& record : records) offsets.push_back(record.offset());
    return offsets;
  }
  void Drain() {
    full = false;
    if (drained) strand->Post(std::exchange(drained, nullptr));
  }
  void Close() {
    if (closed) strand->Post(std::exchange(closed, nullptr));
    drained = nullptr;
  }
  void Disconnect() {
    lost = true;
    Close();
  }
};

class ClientSink final : public SubscriptionSink {
 public:
  explicit ClientSink(std::shared_ptr<Client> client) : client_(std::move(client)) {}
  ~ClientSink() override {
    if (!client_->end.has_value()) client_->lost = true;
    client_->drained = nullptr;
    client_->closed = nullptr;
  }

  absl::Status Write(const v1::SubscribeResponse& response) override {
    if (!client_->open()) return absl::CancelledError("gone");
    if (client_->full && client_->generation != 0) return absl::ResourceExhaustedError("slow");
    EXPECT_TRUE(client_->generation == 0 || client_->generation == response.reader_generation());
    client_->generation = response.reader_generation();
    for (const v1::Record& record : response.records()) client_->records.push_back(record);
    client_->caught_up |= response.caught_up();
    if (response.records_size() > 0 && client_->room > 0 && --client_->room == 0) {
      client_->full = true;
    }
    return absl::OkStatus();
  }
  void NotifyDrained(Strand::Task task) override {
    if (!client_->open()) return;
    client_->drained = std::move(task);
    if (!client_->full) client_->Drain();
  }
  void NotifyClosed(Strand::Task task) override {
    client_->closed = std::move(task);
    if (!client_->open()) client_->Close();
  }
  void Finish(const absl::Status& status) override {
    if (!client_->open()) return;
    client_->end = status;
    client_->Close();
  }

 private:
  const std::shared_ptr<Client> client_;
};

// The service over disks that outlive it.
class World {
 public:
  explicit World(size_t piece = 3, SubscriptionEngine::Options options = {})
      : piece_(piece), options_(options) {
    Start();
  }
  ~World() { Forget(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void Start() {
    Forget();
    strand_ = std::make_unique<SimulatedStrand>(&clock_);
    metrics_ = std::make_unique<metrics::Registry>("telemetry");
    streams_ = std::make_unique<FakeStreams>(&disk, strand_.get(), piece_);
    store_ = std::make_unique<FakeSubscriptionStore>(&subscriptions);
    auto records = store_->Load();
    engine_ =
        std::make_unique<SubscriptionEngine>(options_,
                                             SubscriptionEngine::Deps{.strand = strand_.get(),
                                                                      .streams = streams_.get(),
                                                                      .store = store_.get(),
                                                                      .audit_strand = strand_.get(),
                                                                      .audit = &audit,
                                                                      .metrics = metrics_.get()},
                                             *std::move(records));
  }
  // As kill -9: what was posted is never run.
  void Crash(Random& random) {
    store_->Crash(random);
    Forget();
  }
  void Run() { strand_->RunReady(); }

  SubscriptionEngine& engine() { return *engine_; }
  FakeStreams& streams() { return *streams_; }
  FakeSubscriptionStore& store() { return *store_; }
  SimulatedStrand& strand() { return *strand_; }
  std::string Metrics() const { return metrics_->RenderText(); }

  void Append(int count, const std::string& stream = kLog) {
    for (int i = 0; i < count; ++i) {
      disk[stream].Append(absl::StrCat(stream, "#", disk[stream].next()));
    }
    streams_->PumpAll();
  }
  // Calls with an answer run to their end, as far as the store lets them.
  absl::StatusOr<v1::Subscription> Create(
      const std::string& id = "s", v1::CursorPosition position = v1::CURSOR_POSITION_UNSPECIFIED) {
    v1::CreateSubscriptionRequest request;
    request.set_parent("projects/p");
    request.set_subscription_id(id);
    request.set_stream(kLog);
    request.set_position(position);
    absl::StatusOr<v1::Subscription> answer = absl::DeadlineExceededError("no answer");
    engine_->Create(request, kPerson,
                    [&answer](absl::StatusOr<v1::Subscription> got) { answer = std::move(got); });
    Run();
    return answer;
  }
  absl::StatusOr<v1::Subscription> Get() {
    absl::StatusOr<v1::Subscription> answer = absl::DeadlineExceededError("no answer");
    engine_->Get(kName,
                 [&answer](absl::StatusOr<v1::Subscription> got) { answer = std::move(got); });
    Run();
    return answer;
  }
  absl::Status Seek(int64_t next) {
    v1::SeekSubscriptionRequest request;
    request.set_name(kName);
    request.set_next_offset(next);
    absl::Status answer = absl::DeadlineExceededError("no answer");
    engine_->Seek(request, kPerson, [&answer](const absl::StatusOr<v1::Subscription>& got) {
      answer = got.status();
    });
    Run();
    return answer;
  }
  absl::Status Delete() {
    absl::Status answer = absl::DeadlineExceededError("no answer");
    engine_->Delete(kName, kPerson, [&answer](absl::Status got) { answer = std::move(got); });
    Run();
    return answer;
  }
  absl::Status Acknowledge(int64_t offset, int64_t generation) {
    absl::Status answer = absl::DeadlineExceededError("no answer");
    StartAcknowledge(
        offset, generation,
        [&answer](const absl::StatusOr<v1::AcknowledgeResponse>& got) { answer = got.status(); });
    Run();
    return answer;
  }
  void StartAcknowledge(int64_t offset, int64_t generation,
                        Subscriptions::Done<v1::AcknowledgeResponse> done) {
    v1::AcknowledgeRequest request;
    request.set_name(kName);
    request.set_offset(offset);
    request.set_reader_generation(generation);
    engine_->Acknowledge(request, std::move(done));
  }
  std::shared_ptr<Client> Connect(bool follow = true) {
    auto client = std::make_shared<Client>();
    client->strand = strand_.get();
    v1::SubscribeRequest request;
    request.set_name(kName);
    request.set_follow(follow);
    engine_->Subscribe(request, std::make_unique<ClientSink>(client));
    return client;
  }
  // The offsets that a reader gets who does not stay.
  std::vector<int64_t> ReadAll() {
    const auto client = Connect(/*follow=*/false);
    Run();
    EXPECT_TRUE(client->end.has_value() && client->end->ok());
    EXPECT_TRUE(client->caught_up);
    return client->Offsets();
  }

  StreamDisk disk;
  FakeSubscriptionDisk subscriptions;
  FakeAudit audit;

 private:
  void Forget() {
    engine_.reset();
    streams_.reset();
    // What it still has is dropped with it.
    strand_.reset();
    store_.reset();
  }

  const size_t piece_;
  const SubscriptionEngine::Options options_;
  SimulatedClock clock_;
  std::unique_ptr<SimulatedStrand> strand_;
  std::unique_ptr<metrics::Registry> metrics_;
  std::unique_ptr<FakeStreams> streams_;
  std::unique_ptr<FakeSubscriptionStore> store_;
  std::unique_ptr<SubscriptionEngine> engine_;
};

using Offsets = std::vector<int64_t>;

TEST(SubscriptionEngineTest, ItGoesOnBehindWhatWasAcknowledgedAlsoAfterARestart) {
  World world;
  world.Append(5);
  ASSERT_TRUE(world.Create().ok());
  EXPECT_EQ(world.ReadAll(), (Offsets{1, 2, 3, 4, 5}));
  EXPECT_EQ(world.ReadAll(), (Offsets{1, 2, 3, 4, 5})) << "nothing was acknowledged";
  EXPECT_TRUE(world.Acknowledge(3, 2).ok());
  world.Start();
  EXPECT_EQ(world.ReadAll(), (Offsets{4, 5}));
  EXPECT_TRUE(world.Acknowledge(5, 3).ok());
  EXPECT_EQ(world.ReadAll(), Offsets());
  world.Append(1);
  EXPECT_EQ(world.ReadAll(), Offsets{6});
  EXPECT_EQ(world.Get()->lag_records(), 1);
}

TEST(SubscriptionEngineTest, ANewOneMayBeginWithWhatComes) {
  World world;
  world.Append(5);
  EXPECT_EQ(world.Create("s", v1::CURSOR_POSITION_NEWEST)->acknowledged_offset(), 5);
  const auto reader = world.Connect();
  world.Run();
  EXPECT_TRUE(reader->caught_up);
  world.Append(2);
  world.Run();
  EXPECT_EQ(reader->Offsets(), (Offsets{6, 7}));
  EXPECT_EQ(reader->records[0].payload(), absl::StrCat(kLog, "#6"));
}

TEST(SubscriptionEngineTest, ANewReaderTakesOver) {
  World world;
  world.Append(4);
  ASSERT_TRUE(world.Create().ok());
  const auto first = world.Connect();
  world.Run();
  EXPECT_EQ(first->Offsets(), (Offsets{1, 2, 3, 4}));
  EXPECT_TRUE(world.Acknowledge(2, first->generation).ok());
  const auto second = world.Connect();
  world.Run();
  ASSERT_TRUE(first->end.has_value());
  EXPECT_EQ(status::Reason(*first->end), "READER_REPLACED");
  EXPECT_EQ(second->Offsets(), (Offsets{3, 4}));
  EXPECT_EQ(status::Reason(world.Acknowledge(4, first->generation)), "READER_REPLACED");
  EXPECT_EQ(world.Get()->acknowledged_offset(), 2);
  world.Append(1);
  world.Run();
  EXPECT_EQ(first->records.size(), 4u);
  EXPECT_EQ(second->Offsets(), (Offsets{3, 4, 5}));
  EXPECT_TRUE(world.Acknowledge(5, second->generation).ok());
  EXPECT_TRUE(world.Get()->reading());
  EXPECT_EQ(world.streams().readers(), 1u);
  second->Disconnect();
  world.Run();
  EXPECT_FALSE(world.Get()->reading());
}

TEST(SubscriptionEngineTest, WhatRetentionHasPassedIsAnErrorThatSaysFromWhereOn) {
  World world;
  world.Append(10);
  ASSERT_TRUE(world.Create().ok());
  ASSERT_TRUE(world.Acknowledge(2, 0).ok());
  world.disk[kLog].Drop(6);
  const auto reader = world.Connect();
  world.Run();
  ASSERT_TRUE(reader->end.has_value());
  EXPECT_TRUE(absl::IsOutOfRange(*reader->end));
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("first_offset"), "7");
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("lost_records"), "4");
  EXPECT_TRUE(reader->records.empty());
  EXPECT_EQ(world.Get()->lost_records(), 4);
  ASSERT_TRUE(world.Seek(7).ok());
  EXPECT_EQ(world.ReadAll(), (Offsets{7, 8, 9, 10}));
}

TEST(SubscriptionEngineTest, AReaderThatRetentionOvertakesIsToldBehindWhatItGot) {
  World world(/*piece=*/2);
  world.Append(10);
  ASSERT_TRUE(world.Create().ok());
  const auto reader = world.Connect();
  // Its first piece, then it is slow.
  reader->room = 1;
  world.Run();
  ASSERT_EQ(reader->Offsets(), (Offsets{1, 2}));
  world.disk[kLog].Drop(7);
  reader->Drain();
  world.Run();
  ASSERT_TRUE(reader->end.has_value());
  EXPECT_EQ(status::Reason(*reader->end), "CURSOR_EXPIRED");
  const int64_t got = reader->records.back().offset();
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("next_offset"), absl::StrCat(got + 1));
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("first_offset"), "8");
  EXPECT_FALSE(world.Get()->reading());
}

TEST(SubscriptionEngineTest, AGapThatAProducerReportsIsARecord) {
  World world;
  world.Append(1);
  world.disk[kLog].Append("lost on the Node", "gap");
  world.Append(1);
  ASSERT_TRUE(world.Create().ok());
  EXPECT_EQ(world.ReadAll(), (Offsets{1, 2, 3}));
}

TEST(SubscriptionEngineTest, SeekAndDeleteEndTheReader) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  const auto moved = world.Connect();
  world.Run();
  ASSERT_TRUE(world.Acknowledge(3, moved->generation).ok());
  ASSERT_TRUE(world.Seek(2).ok());
  EXPECT_EQ(status::Reason(*moved->end), "CURSOR_MOVED");
  EXPECT_EQ(status::Reason(world.Acknowledge(3, moved->generation)), "READER_REPLACED");
  const auto deleted = world.Connect();
  world.Run();
  EXPECT_EQ(deleted->Offsets(), (Offsets{2, 3}));
  ASSERT_TRUE(world.Delete().ok());
  EXPECT_EQ(status::Reason(*deleted->end), "SUBSCRIPTION_DELETED");
  EXPECT_TRUE(absl::IsNotFound(world.Get().status()));
  EXPECT_TRUE(absl::IsNotFound(world.Delete()));
  EXPECT_TRUE(absl::IsNotFound(world.Acknowledge(1, 0)));
  world.Start();
  EXPECT_TRUE(world.engine().List("projects/p").empty());
}

TEST(SubscriptionEngineTest, ActsAreAuditedOrDoNotHappen) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  ASSERT_TRUE(world.Seek(2).ok());
  world.ReadAll();
  ASSERT_TRUE(world.Acknowledge(3, 0).ok());
  ASSERT_EQ(world.audit.entries.size(), 2u) << "to read is no such act";
  EXPECT_EQ(world.audit.entries[0].principal, kPerson);
  EXPECT_EQ(world.audit.entries[0].resource, kName);
  EXPECT_EQ(world.audit.entries[0].act,
            "/capstan.telemetry.v1.SubscriptionService/CreateSubscription");
  EXPECT_EQ(world.audit.entries[1].message, absl::StrCat("cursor from 0 to 1 in ", kLog));
  world.audit.failure = absl::UnavailableError("no disk");
  EXPECT_TRUE(absl::IsUnavailable(world.Seek(1)));
  EXPECT_TRUE(absl::IsUnavailable(world.Delete()));
  EXPECT_TRUE(absl::IsUnavailable(world.Create("t").status()));
  EXPECT_EQ(world.Get()->acknowledged_offset(), 3);
  EXPECT_EQ(world.subscriptions.size(), 1u);
}

TEST(SubscriptionEngineTest, WhatIsNotStoredIsNotAnswered) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  world.store().Fail(absl::ResourceExhaustedError("NO_SPACE"));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Acknowledge(2, 0)));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Seek(2)));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Delete()));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Create("t").status()));
  const auto reader = world.Connect();
  world.Run();
  EXPECT_TRUE(absl::IsResourceExhausted(*reader->end));
  EXPECT_EQ(world.Get()->acknowledged_offset(), 0);
  world.store().Fail(absl::OkStatus());
  EXPECT_TRUE(world.Acknowledge(2, 0).ok());
  EXPECT_EQ(world.ReadAll(), Offsets{3});
}

TEST(SubscriptionEngineTest, AnAnswerWaitsForTheDiskAndARoomIsBounded) {
  SubscriptionEngine::Options options;
  options.max_waiting = 4;
  World world(3, options);
  world.Append(20);
  ASSERT_TRUE(world.Create().ok());
  world.store().Hold();
  std::vector<std::string> answers;
  for (int64_t offset = 1; offset <= 8; ++offset) {
    world.StartAcknowledge(offset, 0, [&](const absl::StatusOr<v1::AcknowledgeResponse>& got) {
      answers.push_back(got.ok() ? absl::StrCat(got->acknowledged_offset())
                                 : status::Reason(got.status()));
    });
  }
  world.Run();
  EXPECT_EQ(answers, std::vector<std::string>(3, "SUBSCRIPTION_BUSY"));
  answers.clear();
  while (world.store().Step()) world.Run();
  EXPECT_EQ(answers, (std::vector<std::string>{"1", "2", "3", "4", "5"}));
}

TEST(SubscriptionEngineTest, StreamsThatAreReadKeepTheirNewestSegment) {
  World world;
  EXPECT_TRUE(world.streams().kept().empty());
  ASSERT_TRUE(world.Create().ok());
  EXPECT_EQ(world.streams().kept(), std::set<std::string>{kLog});
  world.Start();
  EXPECT_EQ(world.streams().kept(), std::set<std::string>{kLog}) << "known before retention begins";
  ASSERT_TRUE(world.Delete().ok());
  EXPECT_TRUE(world.streams().kept().empty());
}

TEST(SubscriptionEngineTest, LagIsAMetricAndAList) {
  World world;
  world.Append(10);
  ASSERT_TRUE(world.Create().ok());
  ASSERT_TRUE(world.Create("t").ok());
  ASSERT_TRUE(world.Acknowledge(4, 0).ok());
  world.strand().Advance(absl::Minutes(1));
  EXPECT_NE(world.Metrics().find("capstan_telemetry_subscription_lag_records 16\n"),
            std::string::npos);
  EXPECT_NE(world.Metrics().find("capstan_telemetry_largest_subscription_lag_records 10\n"),
            std::string::npos);
  EXPECT_NE(world.Metrics().find("capstan_telemetry_expired_subscriptions 0\n"), std::string::npos);
  world.disk[kLog].Drop(3);
  world.strand().Advance(absl::Minutes(1));
  EXPECT_NE(world.Metrics().find("capstan_telemetry_expired_subscriptions 1\n"), std::string::npos)
      << world.Metrics();
  const auto all = world.engine().List("projects/p");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].lag_records(), 6);
  EXPECT_EQ(all[1].lost_records(), 3);
  // A Stream that can't be read keeps what was known of it.
  world.streams().Fail(absl::DataLossError("damaged"));
  world.strand().Advance(absl::Minutes(2));
  EXPECT_EQ(world.engine().List("projects/p")[0].lag_records(), 6);
}

TEST(SubscriptionEngineTest, StoppingEndsReadersAndTakesNothingNew) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  const auto reader = world.Connect();
  world.Run();
  world.engine().Stop();
  EXPECT_TRUE(absl::IsUnavailable(*reader->end));
  EXPECT_TRUE(absl::IsUnavailable(world.Acknowledge(1, 0)));
  const auto late = world.Connect();
  EXPECT_TRUE(absl::IsUnavailable(*late->end));
}

// Readers that come, go, are slow, acknowledge late or twice; a service that is killed at any
// moment; retention at any moment. One subscription, a model of what was promised.
class KillsTest : public testing::TestWithParam<uint64_t> {
 protected:
  KillsTest() : random_(GetParam()), world_(1 + random_.Below(4)) {
    EXPECT_TRUE(world_.Create().ok());
    Hold();
  }
  // What the disks answer waits to be stepped.
  void Hold() {
    world_.store().Hold();
    world_.streams().Hold();
  }

  void Act() {
    switch (random_.Below(26)) {
      case 0:
      case 1:
        world_.Append(static_cast<int>(1 + random_.Below(4)));
        break;
      case 2:
        if (clients_.size() < 6) clients_.push_back(world_.Connect(!random_.OneIn(4)));
        break;
      case 3:
        if (auto client = Any()) client->Disconnect();
        break;
      case 4:
        if (auto client = Any()) {
          if (client->full) {
            client->Drain();
          } else {
            client->full = true;
          }
        }
        break;
      case 5:
      case 6:
        Acknowledge();
        break;
      case 7:
        if (random_.OneIn(4)) {
          StreamOnDisk& stream = world_.disk[kLog];
          stream.Drop(stream.first + static_cast<int64_t>(random_.Below(4)));
        }
        break;
      case 8:
        if (random_.OneIn(5)) Crash();
        break;
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
        world_.store().Step();
        break;
      case 14:
        world_.strand().RunNext();
        break;
      default:
        world_.streams().Step();
        break;
    }
    world_.Run();
    Look();
  }

  std::shared_ptr<Client> Any() {
    std::vector<std::shared_ptr<Client>> open;
    for (const auto& client : clients_) {
      if (client->open()) open.push_back(client);
    }
    return open.empty() ? nullptr : open[random_.Below(open.size())];
  }

  void Acknowledge() {
    // Also for one that is gone: its call may have been on its way.
    if (clients_.empty()) return;
    const auto client =
        random_.OneIn(2) ? clients_.back() : clients_[random_.Below(clients_.size())];
    if (client->records.empty()) return;
    const int64_t offset = client->records[random_.Below(client->records.size())].offset();
    asked_ = std::max(asked_, offset);
    world_.StartAcknowledge(offset, client->generation,
                            [this, offset](const absl::StatusOr<v1::AcknowledgeResponse>& got) {
                              if (!got.ok()) return;
                              EXPECT_GE(got->acknowledged_offset(), offset);
                              ++answered_;
                              if (seeks_ > 0) return;
                              promised_ = std::max(promised_, got->acknowledged_offset());
                            });
  }

  void Crash() {
    world_.Crash(random_);
    for (const auto& client : clients_) EXPECT_FALSE(client->open());
    ++kills_;
    seeks_ = 0;
    world_.Start();
    Hold();
  }

  void Look() {
    const int64_t cursor = world_.subscriptions.at(kName).acknowledged_offset();
    ASSERT_GE(cursor, promised_) << "an acknowledgement was lost";
    ASSERT_LE(cursor, std::max(asked_, skipped_)) << "the cursor has run ahead";
    int reading = 0;
    for (auto it = clients_.begin(); it != clients_.end();) {
      Client& client = **it;
      const std::vector<int64_t> offsets = client.Offsets();
      for (size_t i = 0; i < offsets.size(); ++i) {
        ASSERT_EQ(offsets[i], offsets[0] + static_cast<int64_t>(i)) << "a hole";
        ASSERT_EQ(client.records[i].payload(), absl::StrCat(kLog, "#", offsets[i]));
        delivered_.insert(offsets[i]);
      }
      if (client.open() && client.generation != 0) ++reading;
      if (client.end.has_value() && !std::exchange(client.seen, true)) OnEnd(client);
      // One that has ended may yet acknowledge, for a while.
      it = client.open() || random_.Below(3) > 0 ? std::next(it) : clients_.erase(it);
    }
    ASSERT_LE(reading, 1) << "two readers of one subscription";
  }

  void OnEnd(const Client& client) {
    const std::string reason = status::Reason(*client.end);
    ASSERT_NE(reason, "CURSOR_BEYOND_END");
    ASSERT_TRUE(client.end->ok() || reason == "READER_REPLACED" || reason == "CURSOR_MOVED" ||
                reason == "CURSOR_EXPIRED" || reason == "SUBSCRIPTION_BUSY")
        << *client.end;
    if (reason != "CURSOR_EXPIRED") return;
    ++expiries_;
    const auto info = status::GetErrorInfo(*client.end);
    int64_t next = 0;
    int64_t first = 0;
    ASSERT_TRUE(absl::SimpleAtoi(info->metadata.at("next_offset"), &next));
    ASSERT_TRUE(absl::SimpleAtoi(info->metadata.at("first_offset"), &first));
    ASSERT_LT(next, first);
    ASSERT_LE(first, world_.disk[kLog].first);
    if (!client.records.empty()) {
      ASSERT_EQ(next, client.records.back().offset() + 1);
    }
    for (int64_t offset = next; offset < first; ++offset) told_lost_.insert(offset);
    // As a person does who is told so.
    if (world_.subscriptions.at(kName).acknowledged_offset() + 1 >= first) return;
    v1::SeekSubscriptionRequest seek;
    seek.set_name(kName);
    seek.set_next_offset(first);
    skipped_ = std::max(skipped_, first - 1);
    // Until it is over, what is acknowledged before it may be undone by it.
    ++seeks_;
    promised_ = std::min(promised_, first - 1);
    world_.engine().Seek(seek, kPerson,
                         [this](const absl::StatusOr<v1::Subscription>&) { --seeks_; });
  }

  Random random_;
  World world_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::set<int64_t> delivered_;
  std::set<int64_t> told_lost_;
  int64_t promised_ = 0;
  int64_t asked_ = 0;
  int64_t skipped_ = 0;
  int seeks_ = 0;
  // What the walk met.
  int answered_ = 0;
  int kills_ = 0;
  int expiries_ = 0;
};

TEST_P(KillsTest, NothingIsMissedAndNoCursorIsLost) {
  for (int step = 0; step < 3000; ++step) {
    Act();
    ASSERT_FALSE(HasFatalFailure()) << "step " << step;
  }
  // Quiet: a reader gets everything that is left.
  Crash();
  world_.Start();
  clients_.clear();
  for (int attempt = 0; attempt < 3; ++attempt) {
    clients_ = {world_.Connect(/*follow=*/false)};
    world_.Run();
    Look();
    ASSERT_FALSE(HasFatalFailure());
    if (!clients_.empty() && clients_[0]->end->ok()) break;
    world_.Run();
  }
  const int64_t last = world_.disk[kLog].next() - 1;
  // The walk went somewhere.
  EXPECT_GT(last, 300);
  EXPECT_GE(kills_, 10);
  EXPECT_GE(answered_, 10);
  for (int64_t offset = 1; offset <= last; ++offset) {
    EXPECT_TRUE(delivered_.count(offset) > 0 || told_lost_.count(offset) > 0)
        << "record " << offset << " was skipped in silence";
  }
  EXPECT_TRUE(last == 0 || world_.Acknowledge(last, 0).ok());
  EXPECT_EQ(world_.ReadAll(), Offsets());
}

INSTANTIATE_TEST_SUITE_P(Seeds, KillsTest, testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace capstan::telemetry
