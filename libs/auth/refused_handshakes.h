#ifndef CAPSTAN_LIBS_AUTH_REFUSED_HANDSHAKES_H_
#define CAPSTAN_LIBS_AUTH_REFUSED_HANDSHAKES_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/denial_log.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/time/clock.h"

namespace capstan::auth {

// Counts, logs and audits the handshakes that a process refuses: every one is counted, the first
// of a minute is logged and recorded at once, the others as one more line and record with their
// number. What a refused certificate claims is anyone's word: it is told, cut short, and never
// makes a kind of its own, so that a stranger costs two records a minute whatever he shows.
// Thread-safe.
class RefusedHandshakes {
 public:
  // Who refused: this process as a server, or as a client.
  enum class Side { kServer, kClient };

  // The pointers must outlive Close.
  RefusedHandshakes(audit::AuditSink* audit, const Clock* clock, const log::Logger* logger,
                    metrics::Registry* registry);
  // Closes it.
  ~RefusedHandshakes();

  // What an rpc::RefusalObserver does.
  void Record(Side side, const absl::Status& why, absl::string_view claimed_id);
  // Records the repeats of windows that are over; call it about once a minute.
  void Flush();
  // Records what is left; after that nothing is recorded or touched any more.
  void Close();

 private:
  // Logs what goes into the audit log.
  class Sink final : public audit::AuditSink {
   public:
    Sink(audit::AuditSink* audit, const log::Logger* logger) : audit_(audit), logger_(logger) {}
    absl::Status Record(const audit::AuditEntry& entry) override;

   private:
    audit::AuditSink* const audit_;
    const log::Logger* const logger_;
  };

  const Clock* const clock_;
  Sink sink_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  metrics::Counter as_server_ ABSL_GUARDED_BY(mutex_);
  metrics::Counter as_client_ ABSL_GUARDED_BY(mutex_);
  DenialLog denials_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_REFUSED_HANDSHAKES_H_
