#include "libs/process/audit_head_reporter.h"

#include <utility>

namespace capstan::process {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);
// After a failure, so that an outage is not met with a call a second.
constexpr absl::Duration kRetryAfter = absl::Seconds(10);

}  // namespace

AuditHeadReporter::AuditHeadReporter(Options options, Deps deps)
    : options_(options),
      deps_(std::move(deps)),
      unsigned_(deps_.metrics->AddGauge("audit_unsigned_records",
                                        "Audit records that no signed head covers.")),
      refused_(deps_.metrics->AddGauge("audit_chain_refused",
                                       "1 if the audit chain is shorter or other than signed.")) {}

AuditHeadReporter::~AuditHeadReporter() {
  if (timer_ != 0) deps_.strand->Cancel(timer_);
}

void AuditHeadReporter::Start() { Look(); }

void AuditHeadReporter::Look() {
  timer_ = deps_.strand->RunAfter(kLookEvery, [this] {
    timer_ = 0;
    Look();
  });
  const audit::ChainHead head = deps_.head();
  const int64_t fresh = head.sequence - signed_;
  unsigned_.Set(static_cast<double>(fresh));
  if (sending_ || fresh == 0) return;
  const absl::Duration since = deps_.strand->clock().Read().boot - last_try_;
  if (since >= options_.every || (fresh >= options_.at_records && since >= kRetryAfter)) {
    Send(head);
  }
}

void AuditHeadReporter::Send(const audit::ChainHead& head) {
  sending_ = true;
  last_try_ = deps_.strand->clock().Read().boot;
  deps_.report(head, [this, alive = std::weak_ptr<char>(alive_),
                      sequence = head.sequence](const absl::Status& answer) {
    if (!alive.expired()) OnAnswer(sequence, answer);
  });
}

void AuditHeadReporter::OnAnswer(int64_t sequence, const absl::Status& answer) {
  sending_ = false;
  if (answer.ok()) {
    signed_ = sequence;
    refused_.Set(0);
  } else if (absl::IsFailedPrecondition(answer)) {
    refused_.Set(1);
    deps_.log->Error("the audit chain is not the one that was signed", {{"error", answer}});
  } else {
    deps_.log->Warning("the audit chain's head is not signed", {{"error", answer}});
  }
  unsigned_.Set(static_cast<double>(deps_.head().sequence - signed_));
  if (closed_) std::exchange(closed_, nullptr)();
}

void AuditHeadReporter::Close(absl::AnyInvocable<void()> done) {
  if (timer_ != 0) deps_.strand->Cancel(std::exchange(timer_, 0));
  const audit::ChainHead head = deps_.head();
  if (head.sequence == signed_) return done();
  closed_ = std::move(done);
  // One that is under way is of an older head.
  Send(head);
}

}  // namespace capstan::process
