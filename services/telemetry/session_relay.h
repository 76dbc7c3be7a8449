#ifndef CAPSTAN_SERVICES_TELEMETRY_SESSION_RELAY_H_
#define CAPSTAN_SERVICES_TELEMETRY_SESSION_RELAY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/auth/principal.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"
#include "services/telemetry/core/session_book.h"

namespace capstan::telemetry {

// Passes the frames of task sessions between a person and a Node; see the proto for what is
// promised. Holds at most what a stream queues for a slow peer: an end that lets its queue run
// over, against its credit, is cut off. Nothing of a session is kept. On its strand.
class SessionRelay {
 public:
  struct Deps {
    Strand* strand = nullptr;
    // Runs what waits for the audit trail's disk.
    Strand* audit_strand = nullptr;
    audit::AuditSink* audit = nullptr;
    auth::Access* access = nullptr;
    metrics::Registry* metrics = nullptr;
  };
  // One end's stream. Both may be called until `finish` was.
  struct FrameSink {
    std::function<absl::Status(const v1::TaskSessionFrame&)> send;
    std::function<void(const absl::Status&)> finish;
  };
  struct WatchSink {
    std::function<absl::Status(const v1::TaskSession&)> send;
    std::function<void(const absl::Status&)> finish;
  };

  // All must outlive it.
  SessionRelay(SessionBook::Limits limits, const Deps& deps, Random random);
  ~SessionRelay();
  SessionRelay(const SessionRelay&) = delete;
  SessionRelay& operator=(const SessionRelay&) = delete;

  // Opens a checked session for an admitted person, once that is on record, and tells its Node.
  void Open(const v1::TaskSession& wanted, const auth::Caller& caller,
            absl::AnyInvocable<void(absl::StatusOr<v1::TaskSession>)> done);

  // A Node's watch; the number is for Unwatch.
  uint64_t Watch(const std::string& node, WatchSink sink);
  void Unwatch(const std::string& node, uint64_t number);

  // An end attaches; on error its stream is finished by the caller.
  absl::StatusOr<SessionEnd> Attach(const std::string& id, const auth::Caller& caller,
                                    FrameSink sink);
  void OnFrame(const std::string& id, SessionEnd from, const v1::TaskSessionFrame& frame);
  // An end's stream is over.
  void OnClosed(const std::string& id, SessionEnd end, const absl::Status& status);

  // Ends all with UNAVAILABLE, and takes no more.
  void Stop();

 private:
  struct Ends {
    auth::Caller caller;
    FrameSink person;
    FrameSink node;
  };
  struct Watcher {
    uint64_t number = 0;
    WatchSink sink;
  };

  void Opened(const v1::TaskSession& session, const auth::Caller& caller,
              absl::AnyInvocable<void(absl::StatusOr<v1::TaskSession>)> done,
              const absl::Status& recorded);
  void Close(const std::string& id, const absl::Status& why);
  void Closed(const SessionOutcome& outcome);
  void Tick();
  void ArmTimer();

  const Deps deps_;
  Random random_;
  SessionBook book_;
  metrics::Gauge open_;
  metrics::Counter opened_;
  bool stopped_ = false;
  uint64_t last_watch_ = 0;
  std::map<std::string, Watcher> watchers_;
  std::map<std::string, Ends> ends_;
  Strand::TimerId timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_SESSION_RELAY_H_
