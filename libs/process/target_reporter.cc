#include "libs/process/target_reporter.h"

#include <algorithm>
#include <utility>

#include "libs/rpc/call.h"
#include "libs/time/proto_time.h"

namespace capstan::process {
namespace {

// After a failure, and the bounds of what telemetry may ask for.
constexpr absl::Duration kRetryAfter = absl::Seconds(5);
constexpr absl::Duration kLeast = absl::Seconds(1);
constexpr absl::Duration kMost = absl::Minutes(5);

constexpr char kMetric[] = "target_reports_total";
constexpr char kHelp[] = "Reports of this process' metrics address to telemetry.";

}  // namespace

TargetReporter::TargetReporter(const std::vector<std::shared_ptr<grpc::Channel>>& replicas,
                               telemetry::v1::ReportScrapeTargetRequest request, Strand* strand,
                               Random* random, const log::Logger* logger,
                               metrics::Registry* registry)
    : request_(std::move(request)),
      strand_(strand),
      random_(random),
      logger_(logger),
      taken_(registry->AddCounter(kMetric, kHelp, {{"outcome", "taken"}})),
      failed_(registry->AddCounter(kMetric, kHelp, {{"outcome", "failed"}})) {
  for (const std::shared_ptr<grpc::Channel>& channel : replicas) {
    Replica replica;
    replica.stub = telemetry::v1::ScrapeTargetService::NewStub(channel);
    replicas_.push_back(std::move(replica));
  }
}

TargetReporter::~TargetReporter() {
  for (const Replica& replica : replicas_) {
    if (replica.timer != 0) strand_->Cancel(replica.timer);
  }
}

void TargetReporter::Start() {
  for (size_t i = 0; i < replicas_.size(); ++i) Report(i);
}

void TargetReporter::Report(size_t replica) {
  using Async = telemetry::v1::ScrapeTargetService::StubInterface::async_interface;
  replicas_[replica].timer = 0;
  rpc::CallUnary(replicas_[replica].stub.get(), &Async::ReportScrapeTarget, request_,
                 {.deadline = absl::Seconds(10)}, strand_,
                 [this, replica, alive = std::weak_ptr<char>(alive_)](
                     const absl::StatusOr<telemetry::v1::ReportScrapeTargetResponse>& answer) {
                   if (!alive.expired()) OnAnswer(replica, answer);
                 });
}

void TargetReporter::OnAnswer(
    size_t replica, const absl::StatusOr<telemetry::v1::ReportScrapeTargetResponse>& answer) {
  Replica& to = replicas_[replica];
  absl::Duration delay = kRetryAfter;
  if (answer.ok()) {
    taken_.Increment();
    to.failure = absl::OkStatus();
    delay = std::clamp(ToDuration(answer->repeat_after()), kLeast, kMost);
  } else {
    failed_.Increment();
    // That telemetry is away is telemetry's news; what it refuses is ours.
    const bool away = absl::IsUnavailable(answer.status()) ||
                      absl::IsDeadlineExceeded(answer.status()) ||
                      absl::IsCancelled(answer.status());
    if (!away) delay = absl::Minutes(1);
    if (!away && to.failure.code() != answer.status().code()) {
      logger_->Warning(
          "telemetry does not list this process' metrics",
          {{"metrics_address", request_.metrics_address()}, {"error", answer.status()}});
    }
    if (!away) to.failure = answer.status();
  }
  // Spread, so that those who started together do not come together for ever.
  to.timer =
      strand_->RunAfter(random_->Between(delay * 0.9, delay), [this, replica] { Report(replica); });
}

}  // namespace capstan::process
