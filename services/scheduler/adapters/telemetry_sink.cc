#include "services/scheduler/adapters/telemetry_sink.h"

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/call.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::telemetry::v1;

constexpr absl::Duration kDeadline = absl::Seconds(10);

// The answers of one batch's calls; the first error is the batch's.
struct Batch {
  size_t left = 0;
  absl::Status status;
  absl::AnyInvocable<void(absl::Status)> taken;
};

}  // namespace

TelemetrySink::TelemetrySink(std::shared_ptr<grpc::Channel> channel, Strand* strand)
    : stub_(pb::StreamService::NewStub(std::move(channel))), strand_(strand) {}

void TelemetrySink::Append(int64_t incarnation, std::vector<Entry> entries,
                           absl::AnyInvocable<void(absl::Status)> taken) {
  std::map<std::string, pb::AppendRecordsRequest> requests;
  for (const Entry& entry : entries) {
    const std::string stream = absl::StrCat(entry.event.job(), "/streams/events");
    pb::AppendRecordsRequest& request = requests[stream];
    request.set_stream(stream);
    pb::Record& record = *request.add_records();
    record.set_key(entry.event.job_uid());
    record.set_payload(entry.event.SerializeAsString());
    record.set_kind("job_event");
    *record.mutable_event_time() = entry.event.event_time();
    record.set_producer(absl::StrCat("scheduler/", incarnation));
    record.set_producer_sequence(entry.sequence);
    (*record.mutable_attributes())["generation"] = absl::StrCat(entry.event.generation());
  }
  if (requests.empty()) return taken(absl::OkStatus());
  auto batch = std::make_shared<Batch>();
  batch->left = requests.size();
  batch->taken = std::move(taken);
  for (auto& [stream, request] : requests) {
    rpc::CallUnary(stub_.get(), &pb::StreamService::StubInterface::async_interface::AppendRecords,
                   std::move(request), rpc::CallOptions{.deadline = kDeadline}, strand_,
                   [batch, stub = stub_](absl::StatusOr<pb::AppendRecordsResponse> response) {
                     if (!response.ok()) batch->status.Update(response.status());
                     if (--batch->left == 0) batch->taken(batch->status);
                   });
  }
}

}  // namespace capstan::scheduler
