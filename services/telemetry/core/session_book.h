// The task sessions that are open: who may attach to which, and when each must end. Pure.
#ifndef CAPSTAN_SERVICES_TELEMETRY_CORE_SESSION_BOOK_H_
#define CAPSTAN_SERVICES_TELEMETRY_CORE_SESSION_BOOK_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/auth/spiffe_id.h"
#include "libs/time/clock.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::telemetry {

// The two ends of a session.
enum class SessionEnd { kPerson, kNode };

// INVALID_ARGUMENT with everything that is wrong with a session that is asked for.
absl::Status CheckSession(const v1::OpenTaskSessionRequest& request);

// `clusters/{c}/nodes/{n}` of a Node's SPIFFE id.
std::string NodeNameOf(const auth::SpiffeId& node);

// How a session ended, for the audit trail.
struct SessionOutcome {
  v1::TaskSession session;
  // What its ends are told.
  absl::Status status;
  // `exit code 7`, and how many bytes went which way; no byte of them.
  std::string message;
};

class SessionBook {
 public:
  struct Limits {
    absl::Duration attach_within = absl::Seconds(20);
    absl::Duration idle = absl::Hours(1);
    absl::Duration total = absl::Hours(24);
    // For the person to read the last of it, once the Node has said that it is over.
    absl::Duration leave_within = absl::Seconds(10);
    size_t sessions = 500;
    size_t of_one_principal = 20;
  };

  explicit SessionBook(Limits limits) : limits_(limits) {}

  // Opens a session for `principal`; the answer is what the Node is told. `id` was never used
  // before. RESOURCE_EXHAUSTED with TOO_MANY_SESSIONS.
  absl::StatusOr<v1::TaskSession> Open(const v1::TaskSession& wanted, const std::string& id,
                                       const std::string& principal, Now now);

  // Says which end of the session the caller is. PERMISSION_DENIED, with one text for a session
  // that is not there, that is another's, or whose end is there already.
  absl::StatusOr<SessionEnd> Attach(const std::string& id, const auth::SpiffeId& caller, Now now);
  // Both ends are there.
  bool IsJoined(const std::string& id) const;

  // The Node's stream is over. True if it had said how it ended: the session then goes on until the
  // person's stream is over too, but no longer than `leave_within`. Who ends a stream at once may
  // take from its reader what is still under way.
  bool NodeLeft(const std::string& id, Now now);

  // A frame from one end, to be passed to the other, if that has not left. FAILED_PRECONDITION if
  // it is not there yet, INVALID_ARGUMENT for one that this end may not send: the session must end.
  absl::Status OnFrame(const std::string& id, SessionEnd from, const v1::TaskSessionFrame& frame,
                       Now now);

  // Ends a session; absent if it is gone.
  absl::optional<SessionOutcome> Close(const std::string& id, absl::Status why);
  // Ends those whose time is over.
  std::vector<SessionOutcome> Expire(Now now);
  // When to call Expire next; InfiniteFuture without a session.
  BootTime NextExpiry() const;

  size_t size() const { return sessions_.size(); }
  // Ids, sorted.
  std::vector<std::string> Ids() const;

 private:
  struct Entry {
    v1::TaskSession session;
    bool person = false;
    bool node = false;
    BootTime opened;
    BootTime active;
    int64_t bytes_to_task = 0;
    int64_t bytes_from_task = 0;
    int connections = 0;
    absl::optional<v1::CommandEnd> end;
    // When the Node left after that.
    absl::optional<BootTime> left;
  };

  // Why and when the session ends if nothing happens.
  std::pair<BootTime, absl::Status> EndOf(const Entry& entry) const;
  static SessionOutcome Outcome(const Entry& entry, absl::Status why);

  const Limits limits_;
  std::map<std::string, Entry> sessions_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_CORE_SESSION_BOOK_H_
