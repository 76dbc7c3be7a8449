#include "integration/simulation/telemetry_actor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/telemetry/core/subscription_book.h"

namespace capstan::simulation {
namespace {

constexpr char kPerson[] = "spiffe://capstan-00000000.local/person/1000";
constexpr absl::Duration kRetainEvery = absl::Seconds(45);
// Segments that retention leaves, beside the newest.
constexpr int64_t kKept = 1;

}  // namespace

void TelemetryActor::OnStart() {
  witness_.Loaded();
  metrics_ = std::make_unique<metrics::Registry>("telemetry");
  strand_ = std::make_unique<ProcessStrand>(this);
  streams_ =
      std::make_unique<DiskStreams>(this, &disk_, mutants_, [this] { witness_.StreamStored(); });
  store_ = std::make_unique<DiskSubscriptions>(this, &disk_, mutants_,
                                               [this] { witness_.SubscriptionStored(); });
  auto records = store_->Load();
  if (!records.ok()) return world().Violate(records.status().ToString());
  // As lost_cursors.h, before anything is appended.
  for (auto& record : *records) {
    if (telemetry::MarkIfBeyondEnd(record, DiskStreams::ExtentOf(disk_)).has_value()) {
      world().Violate(absl::StrCat("the Stream ends before the cursor of ", record.name()));
    }
  }
  engine_ = std::make_unique<telemetry::SubscriptionEngine>(
      telemetry::SubscriptionEngine::Options(),
      telemetry::SubscriptionEngine::Deps{.strand = strand_.get(),
                                          .streams = streams_.get(),
                                          .store = store_.get(),
                                          .audit_strand = strand_.get(),
                                          .audit = &audit_,
                                          .metrics = metrics_.get()},
      *std::move(records));
  Retain();
}

void TelemetryActor::OnCrash() {
  streams_->Crash();
  store_->Crash();
  engine_.reset();
  store_.reset();
  streams_.reset();
  strand_.reset();
  metrics_.reset();
}

void TelemetryActor::Retain() {
  Later(kRetainEvery, [this] {
    streams_->Retain(kKept);
    Retain();
  });
}

void TelemetryActor::Append(const std::string& producer, const std::vector<Record>& records,
                            const Reply<bool>& reply) {
  telemetry::StreamAppend append{.stream = DiskSubscriptions::kStream, .records = {}};
  for (const Record& record : records) {
    telemetry::v1::Record& each = append.records.emplace_back();
    each.set_kind("job_event");
    each.set_producer(producer);
    each.set_key(record.key);
    each.set_producer_sequence(record.sequence);
    each.set_payload(absl::StrCat(record.key, "#", record.sequence));
  }
  streams_->Append({std::move(append)},
                   [this, records, reply](const telemetry::AppendResults& results) {
                     const absl::StatusOr<telemetry::Appended>& done = results.front();
                     if (!done.ok()) return reply(done.status());
                     world().Log(name(), absl::StrCat("has taken ", records.size(), ", ",
                                                      done->duplicates, " of them before"));
                     for (const Record& record : records) {
                       witness_.Acknowledged(record.key, record.sequence);
                     }
                     reply(true);
                   });
}

void TelemetryActor::Create(const Reply<telemetry::v1::Subscription>& reply) {
  telemetry::v1::CreateSubscriptionRequest request;
  request.set_parent(DiskSubscriptions::kProject);
  request.set_subscription_id(DiskSubscriptions::kId);
  request.set_stream(DiskSubscriptions::kStream);
  request.set_request_id("00000000-0000-4000-8000-000000000001");
  engine_->Create(request, kPerson, reply);
}

void TelemetryActor::Subscribe(std::unique_ptr<telemetry::SubscriptionSink> sink) {
  telemetry::v1::SubscribeRequest request;
  request.set_name(DiskSubscriptions::kName);
  request.set_follow(true);
  engine_->Subscribe(request, std::move(sink));
}

void TelemetryActor::Acknowledge(int64_t offset, int64_t generation,
                                 const Reply<telemetry::v1::AcknowledgeResponse>& reply) {
  telemetry::v1::AcknowledgeRequest request;
  request.set_name(DiskSubscriptions::kName);
  request.set_offset(offset);
  request.set_reader_generation(mutants_->readers_not_fenced ? 0 : generation);
  engine_->Acknowledge(
      request,
      [this, generation, reply](const absl::StatusOr<telemetry::v1::AcknowledgeResponse>& done) {
        if (done.ok()) witness_.CursorAnswered(generation, done->acknowledged_offset());
        reply(done);
      });
}

void TelemetryActor::Seek(int64_t next_offset, const Reply<telemetry::v1::Subscription>& reply) {
  telemetry::v1::SeekSubscriptionRequest request;
  request.set_name(DiskSubscriptions::kName);
  request.set_next_offset(next_offset);
  engine_->Seek(request, kPerson,
                [this, reply](const absl::StatusOr<telemetry::v1::Subscription>& done) {
                  if (done.ok()) {
                    witness_.CursorAnswered(done->reader_generation(), done->acknowledged_offset());
                  }
                  reply(done);
                });
}

}  // namespace capstan::simulation
