// Subscriptions over disks and clients that outlive the service, on simulated time.
#ifndef CAPSTAN_SERVICES_TELEMETRY_TESTING_SUBSCRIPTION_WORLD_H_
#define CAPSTAN_SERVICES_TELEMETRY_TESTING_SUBSCRIPTION_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/ports/fake_subscription_store.h"
#include "services/telemetry/ports/subscriptions.h"
#include "services/telemetry/subscription_engine.h"
#include "services/telemetry/testing/fake_streams.h"

namespace capstan::telemetry {

inline constexpr char kName[] = "projects/p/subscriptions/s";
inline constexpr char kLog[] = "projects/p/jobs/j/streams/log";
inline constexpr char kPerson[] = "spiffe://test/person/1000";

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

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_TESTING_SUBSCRIPTION_WORLD_H_
