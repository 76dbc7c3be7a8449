#include "libs/event_shipper/event_shipper.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/rpc/call.h"

namespace capstan {
namespace {

using telemetry::v1::AppendRecordsRequest;
using telemetry::v1::AppendRecordsResponse;
using telemetry::v1::StreamService;

constexpr absl::Duration kDeadline = absl::Seconds(20);

}  // namespace

EventShipper::EventShipper(const std::shared_ptr<grpc::Channel>& telemetry, Strand* strand,
                           const log::Logger* logger, const Options& options)
    : stub_(StreamService::NewStub(telemetry)),
      strand_(strand),
      logger_(logger),
      producer_(absl::StrCat(options.producer, "@", options.incarnation)) {}

void EventShipper::Ship(const std::vector<store::OutboxRecord>& records,
                        store::DoneCallback taken) {
  taken_ = std::move(taken);
  // One call for each Stream, in the order in which they first come.
  std::map<std::string, size_t> places;
  requests_.clear();
  for (const store::OutboxRecord& waiting : records) {
    AppendRecordsRequest parsed;
    if (!parsed.ParseFromString(waiting.payload) || parsed.records_size() != 1) {
      ++refused_;
      logger_->Error("gave up an event that can't be parsed", {{"sequence", waiting.sequence}});
      continue;
    }
    const auto [place, fresh] = places.try_emplace(parsed.stream(), requests_.size());
    if (fresh) requests_.emplace_back().set_stream(parsed.stream());
    telemetry::v1::Record* record = requests_[place->second].add_records();
    *record = std::move(*parsed.mutable_records(0));
    // One that a restore has brought back keeps the identity under which it may have gone already.
    if (record->producer().empty()) {
      record->set_producer(producer_);
      record->set_producer_sequence(waiting.sequence);
    }
  }
  SendNext();
}

void EventShipper::SendNext() {
  if (requests_.empty()) {
    return strand_->Post([this, alive = std::weak_ptr<char>(alive_)] {
      if (alive.lock()) Finish(absl::OkStatus());
    });
  }
  rpc::CallUnary(stub_.get(), &StreamService::StubInterface::async_interface::AppendRecords,
                 requests_.front(), {.deadline = kDeadline}, strand_,
                 [this, alive = std::weak_ptr<char>(alive_),
                  stub = stub_](absl::StatusOr<AppendRecordsResponse> response) {
                   if (alive.lock()) Answered(response.status());
                 });
}

void EventShipper::Answered(const absl::Status& status) {
  if (status.ok()) {
    CrashPoint(crash::kEventsAcknowledged);
    requests_.pop_front();
    return SendNext();
  }
  if (status.code() != absl::StatusCode::kInvalidArgument) return Finish(status);
  AppendRecordsRequest refused = std::move(requests_.front());
  requests_.pop_front();
  if (refused.records_size() == 1) {
    ++refused_;
    logger_->Error("gave up an event that telemetry refuses",
                   {{"stream", refused.stream()}, {"error", status}});
    return SendNext();
  }
  // One of them is wrong: in halves, in order, the others go through.
  AppendRecordsRequest first;
  AppendRecordsRequest second;
  first.set_stream(refused.stream());
  second.set_stream(refused.stream());
  const int half = refused.records_size() / 2;
  for (int i = 0; i < refused.records_size(); ++i) {
    *(i < half ? first : second).add_records() = std::move(*refused.mutable_records(i));
  }
  requests_.push_front(std::move(second));
  requests_.push_front(std::move(first));
  SendNext();
}

void EventShipper::Finish(const absl::Status& status) {
  requests_.clear();
  store::DoneCallback taken = std::move(taken_);
  taken(status);
}

}  // namespace capstan
