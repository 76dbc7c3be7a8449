// Carries out what a Reflector decides, for objects of any type.
#ifndef CAPSTAN_LIBS_KUBE_INFORMER_LIST_WATCH_LOOP_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_LIST_WATCH_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/informer/object_scope.h"
#include "libs/kube/informer/reflector.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/watch/decoder.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// Reasons (status::Reason) of failures that the loop itself finds; those of a call, of a decoder
// and of a codec keep theirs. The code says which it was: UNAUTHENTICATED (401), PERMISSION_DENIED
// (403), NOT_FOUND (404), RESOURCE_EXHAUSTED (429), OUT_OF_RANGE (410), INVALID_ARGUMENT (400,
// 422), else UNAVAILABLE.
inline constexpr char kListWatchRefused[] = "KUBE_LIST_WATCH_REFUSED";
// RESOURCE_EXHAUSTED: a page is larger than max_list_bytes.
inline constexpr char kListTooLarge[] = "KUBE_LIST_TOO_LARGE";
// UNAVAILABLE: something answered that is no API server.
inline constexpr char kUnexpectedContent[] = "KUBE_UNEXPECTED_CONTENT";

struct ListWatchOptions {
  ReflectorOptions reflector;
  // Of one page.
  size_t max_list_bytes = 64 << 20;
  size_t max_event_bytes = watch::kDefaultMaxEventBytes;
  // For one page.
  absl::Duration list_timeout = absl::Seconds(60);
  // Without a byte of a watch. API servers send a bookmark about every minute, but to a resource
  // that never had an event: the cost there is one watch more each time.
  absl::Duration watch_idle_timeout = absl::Minutes(3);
};

// The half that knows the type. Called on the strand, one call at a time, until Stop.
class ObjectIntake {
 public:
  struct PageEnd {
    std::string resource_version;
    std::string continue_token;
  };

  virtual ~ObjectIntake() = default;

  // Decode and keep what came, until Settle says what becomes of it.
  virtual absl::StatusOr<PageEnd> TakePage(absl::string_view body) = 0;
  // kAdded, kModified or kDeleted. Gives the resource version.
  virtual absl::StatusOr<std::string> TakeEvent(watch::EventType type,
                                                absl::string_view object) = 0;
  virtual void Settle(Objects objects) = 0;
  // A list, or a watch list, is about to be asked for: what it will say is not older than now.
  virtual void OnListBegun() = 0;
  virtual void OnWatchBegun() = 0;
  // A request failed; the loop goes on by itself.
  virtual void OnFailure(const absl::Status& status) = 0;
};

// Lists and watches `scope` until it is stopped. Work, decoding too, is done on the strand; calls
// of the transport wait for it (at most 256 KiB and a piece of a watch, and one page, are in memory
// beside what the intake keeps). All that is passed by pointer must outlive it.
//
// Errors of HTTP and of streams: 410 and ERROR events of it are kExpired; 400 and 422 are
// kInvalid; all else, also what cannot be decoded, is kFailed and told to the intake.
class ListWatchLoop {
 public:
  ListWatchLoop(ObjectScope scope, Encoding encoding, const ListWatchOptions& options,
                Transport* transport, Strand* strand, uint64_t seed, ObjectIntake* intake);
  // Stops.
  ~ListWatchLoop();
  ListWatchLoop(const ListWatchLoop&) = delete;
  ListWatchLoop& operator=(const ListWatchLoop&) = delete;

  // Once. The first request leaves on the strand.
  void Start();
  // Ends the call under way. Once it has returned the intake is not called any more. It waits for a
  // call of the intake that runs, so it must not be called from there, nor under a lock that the
  // intake takes. Idempotent; from any thread.
  void Stop();

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_LIST_WATCH_LOOP_H_
