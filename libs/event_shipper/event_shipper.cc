#include "libs/event_shipper/event_shipper.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"

namespace capstan {
namespace {

using telemetry::v1::AppendRecordsRequest;
using telemetry::v1::AppendRecordsResponse;
using telemetry::v1::AppendToStreamsRequest;
using telemetry::v1::AppendToStreamsResponse;
using telemetry::v1::StreamService;

constexpr absl::Duration kDeadline = absl::Seconds(20);
// Bounds of AppendToStreams.
constexpr int kMaxAppends = 256;
constexpr size_t kMaxBytes = 1 << 20;
// What an append takes in a call beside its own bytes, at most: field and length.
constexpr size_t kAppendHead = 5;

// What became of one append of several.
absl::Status StatusOf(const AppendToStreamsResponse::Result& result) {
  if (result.has_appended()) return absl::OkStatus();
  const absl::Status error = rpc::FromStatusProto(result.error());
  return error.ok() ? absl::InternalError("telemetry says nothing about an append") : error;
}

}  // namespace

EventShipper::EventShipper(const std::shared_ptr<grpc::Channel>& telemetry, Strand* strand,
                           const log::Logger* logger, const Options& options)
    : stub_(StreamService::NewStub(telemetry)),
      strand_(strand),
      logger_(logger),
      producer_(absl::StrCat(options.producer, "@", options.incarnation)) {}

void EventShipper::Ship(const std::vector<store::OutboxRecord>& records,
                        store::DoneCallback taken) {
  if (under_way_ != nullptr) Finish(absl::CancelledError("a later Ship takes its place"));
  taken_ = std::move(taken);
  under_way_ = std::make_shared<char>();
  old_telemetry_ = false;
  // One append for each Stream, in the order in which they first come.
  std::map<std::string, size_t> places;
  for (const store::OutboxRecord& waiting : records) {
    AppendRecordsRequest parsed;
    if (!parsed.ParseFromString(waiting.payload) || parsed.records_size() != 1) {
      ++refused_;
      logger_->Error("gave up an event that can't be parsed", {{"sequence", waiting.sequence}});
      continue;
    }
    const auto [place, fresh] = places.try_emplace(parsed.stream(), appends_.size());
    if (fresh) appends_.emplace_back().set_stream(parsed.stream());
    telemetry::v1::Record* record = appends_[place->second].add_records();
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
  if (single_.empty() && old_telemetry_ && !appends_.empty()) {
    single_.push_back(std::move(appends_.front()));
    appends_.pop_front();
  }
  if (!single_.empty()) return SendOne();
  if (!appends_.empty()) return SendMany();
  strand_->Post([this, under_way = std::weak_ptr<char>(under_way_)] {
    if (under_way.lock()) Finish(absl::OkStatus());
  });
}

template <typename Response>
auto EventShipper::WhileUnderWay(
    void (EventShipper::*answered)(const absl::StatusOr<Response>& response)) {
  return [this, answered, under_way = std::weak_ptr<char>(under_way_),
          stub = stub_](const absl::StatusOr<Response>& response) {
    if (under_way.lock()) (this->*answered)(response);
  };
}

void EventShipper::SendOne() {
  rpc::CallUnary(stub_.get(), &StreamService::StubInterface::async_interface::AppendRecords,
                 single_.front(), {.deadline = kDeadline}, strand_,
                 WhileUnderWay(&EventShipper::AnsweredOne));
}

void EventShipper::SendMany() {
  AppendToStreamsRequest request;
  size_t bytes = 0;
  while (!appends_.empty() && request.appends_size() < kMaxAppends) {
    bytes += appends_.front().ByteSizeLong() + kAppendHead;
    if (bytes > kMaxBytes && request.appends_size() > 0) break;
    *request.add_appends() = appends_.front();
    many_.push_back(std::move(appends_.front()));
    appends_.pop_front();
  }
  rpc::CallUnary(stub_.get(), &StreamService::StubInterface::async_interface::AppendToStreams,
                 std::move(request), {.deadline = kDeadline}, strand_,
                 WhileUnderWay(&EventShipper::AnsweredMany));
}

void EventShipper::AnsweredOne(const absl::StatusOr<AppendRecordsResponse>& response) {
  const absl::Status& status = response.status();
  if (status.ok()) {
    CrashPoint(crash::kEventsAcknowledged);
    single_.pop_front();
    return SendNext();
  }
  if (status.code() != absl::StatusCode::kInvalidArgument) return Finish(status);
  AppendRecordsRequest refused = std::move(single_.front());
  single_.pop_front();
  Refused(std::move(refused), status);
  SendNext();
}

void EventShipper::AnsweredMany(const absl::StatusOr<AppendToStreamsResponse>& response) {
  std::vector<AppendRecordsRequest> sent = std::exchange(many_, {});
  if (absl::IsUnimplemented(response.status()) || absl::IsInvalidArgument(response.status())) {
    // Nothing was appended. What it does not take together it is asked to take one by one: what is
    // wrong with the call is then found, and given up.
    old_telemetry_ = absl::IsUnimplemented(response.status());
    for (AppendRecordsRequest& append : sent) single_.push_back(std::move(append));
    return SendNext();
  }
  if (!response.ok()) return Finish(response.status());
  if (response->results_size() != static_cast<int>(sent.size())) {
    return Finish(absl::InternalError(absl::StrCat("telemetry answered ", response->results_size(),
                                                   " of ", sent.size(), " appends")));
  }
  std::vector<absl::Status> errors;
  for (const AppendToStreamsResponse::Result& result : response->results()) {
    errors.push_back(StatusOf(result));
    // All come again, also what is refused.
    if (!errors.back().ok() && !absl::IsInvalidArgument(errors.back())) {
      return Finish(errors.back());
    }
  }
  CrashPoint(crash::kEventsAcknowledged);
  for (size_t i = 0; i < sent.size(); ++i) {
    if (!errors[i].ok()) Refused(std::move(sent[i]), errors[i]);
  }
  SendNext();
}

void EventShipper::Refused(AppendRecordsRequest append, const absl::Status& status) {
  if (append.records_size() <= 1) {
    ++refused_;
    logger_->Error("gave up an event that telemetry refuses",
                   {{"stream", append.stream()}, {"error", status}});
    return;
  }
  // One of them is wrong: in halves, in order.
  AppendRecordsRequest first;
  AppendRecordsRequest second;
  first.set_stream(append.stream());
  second.set_stream(append.stream());
  const int half = append.records_size() / 2;
  for (int i = 0; i < append.records_size(); ++i) {
    *(i < half ? first : second).add_records() = std::move(*append.mutable_records(i));
  }
  single_.push_front(std::move(second));
  single_.push_front(std::move(first));
}

void EventShipper::Finish(const absl::Status& status) {
  appends_.clear();
  many_.clear();
  single_.clear();
  under_way_.reset();
  store::DoneCallback taken = std::move(taken_);
  taken(status);
}

}  // namespace capstan
