#ifndef CAPSTAN_LIBS_PROCESS_AUDIT_HEAD_REPORTER_H_
#define CAPSTAN_LIBS_PROCESS_AUDIT_HEAD_REPORTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/audit/audit_file.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::process {

// Has credentials sign how far this process' audit chain has come, so that what is signed cannot be
// cut off afterwards. Looks once a second; reports what is new after `every` or `at_records`
// records, whichever comes first. So at most a minute's records, and 256 with those of a second,
// are unsigned while credentials answers; one more report is made when the process ends.
//
// Metrics: `audit_unsigned_records` (on disk and not covered by a signed head) and
// `audit_chain_refused` (1 if credentials says that the chain was cut or rewritten: its file is not
// what it was, which somebody must look into).
class AuditHeadReporter {
 public:
  struct Options {
    absl::Duration every = absl::Minutes(1);
    int64_t at_records = 256;
  };
  // Sends a head to credentials; `done` on the strand. OK: it is signed and kept.
  using Report = std::function<void(const audit::ChainHead& head,
                                    absl::AnyInvocable<void(absl::Status)> done)>;
  struct Deps {
    // All must outlive it.
    Strand* strand = nullptr;
    const log::Logger* log = nullptr;
    metrics::Registry* metrics = nullptr;
    // The newest durable head. Thread-safe.
    std::function<audit::ChainHead()> head;
    Report report;
  };

  AuditHeadReporter(Options options, Deps deps);
  // On the strand, or after it has stopped.
  ~AuditHeadReporter();
  AuditHeadReporter(const AuditHeadReporter&) = delete;
  AuditHeadReporter& operator=(const AuditHeadReporter&) = delete;

  // On the strand.
  void Start();
  // On the strand: reports what is unsigned now, at once; `done` when that is over, or had nothing
  // to do.
  void Close(absl::AnyInvocable<void()> done);

 private:
  void Look();
  void Send(const audit::ChainHead& head);
  void OnAnswer(int64_t sequence, const absl::Status& answer);

  const Options options_;
  const Deps deps_;
  metrics::Gauge unsigned_;
  metrics::Gauge refused_;
  // Of the newest head that credentials has signed.
  int64_t signed_ = 0;
  BootTime last_try_ = BootTime::InfinitePast();
  bool sending_ = false;
  Strand::TimerId timer_ = 0;
  absl::AnyInvocable<void()> closed_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_AUDIT_HEAD_REPORTER_H_
