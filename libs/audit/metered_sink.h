#ifndef CAPSTAN_LIBS_AUDIT_METERED_SINK_H_
#define CAPSTAN_LIBS_AUDIT_METERED_SINK_H_

#include "libs/audit/audit_sink.h"
#include "libs/metrics/registry.h"

namespace capstan::audit {

// Another sink, counted: `audit_records_total` by `outcome`, `recorded` or `failed`. A failure
// means that an audited act was not done. Thread-safe as the other.
class MeteredSink final : public AuditSink {
 public:
  // Both must outlive it.
  MeteredSink(AuditSink* sink, metrics::Registry* registry)
      : sink_(sink),
        recorded_(registry->AddCounter(kMetric, kHelp, {{"outcome", "recorded"}})),
        failed_(registry->AddCounter(kMetric, kHelp, {{"outcome", "failed"}})) {}

  absl::Status Record(const AuditEntry& entry) override {
    absl::Status recorded = sink_->Record(entry);
    (recorded.ok() ? recorded_ : failed_).Increment();
    return recorded;
  }

 private:
  static constexpr char kMetric[] = "audit_records_total";
  static constexpr char kHelp[] = "Records of the process' own audit chain.";

  AuditSink* const sink_;
  metrics::Counter recorded_;
  metrics::Counter failed_;
};

}  // namespace capstan::audit

#endif  // CAPSTAN_LIBS_AUDIT_METERED_SINK_H_
