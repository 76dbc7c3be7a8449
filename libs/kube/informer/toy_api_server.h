#ifndef CAPSTAN_LIBS_KUBE_INFORMER_TOY_API_SERVER_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_TOY_API_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// An object for tests.
struct Toy {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string color;
  // Name of a Toy that owns it; "" for none.
  std::string owner;
};

template <>
struct ObjectTraits<Toy> {
  static absl::string_view Namespace(const Toy& t) { return t.ns; }
  static absl::string_view Name(const Toy& t) { return t.name; }
  static absl::string_view Uid(const Toy& t) { return t.uid; }
  static absl::string_view ResourceVersion(const Toy& t) { return t.resource_version; }
};

ResourceType ToyType();

class ToyCodec final : public Codec<Toy> {
 public:
  // Whether informers are to keep Toys encoded.
  explicit ToyCodec(bool compact = true) : compact_(compact) {}

  Encoding encoding() const override { return Encoding::kJson; }
  absl::StatusOr<std::shared_ptr<const Toy>> ParseObject(absl::string_view object) const override;
  absl::StatusOr<std::shared_ptr<const Toy>> ParseBody(absl::string_view body) const override {
    return ParseObject(body);
  }
  absl::StatusOr<EncodedList> SplitList(absl::string_view body) const override;
  absl::optional<ObjectNames> FindNames(absl::string_view object) const override;
  std::string Write(const Toy& object) const override;

 private:
  const bool compact_;
};

// An API server that has Toys and lists and watches them, slowly and in pieces, with the faults of
// real ones. Thread-safe; calls of handlers are made on the strand. No call may be there when it is
// destroyed, and the strand must have stopped.
class ToyApiServer final : public Transport {
 public:
  using Ref = std::shared_ptr<const Toy>;

  // Each thing that it does comes after a random delay up to `max_delay`.
  ToyApiServer(uint64_t seed, absl::Duration max_delay, Strand* strand)
      : max_delay_(max_delay), strand_(strand), random_(seed) {}

  // Creates it or changes it; `color` and `owner` are those of the new state.
  Ref Write(absl::string_view name, absl::string_view color, absl::string_view owner = "");
  // Its last state; null if it is not there.
  Ref Delete(absl::string_view name);
  // Forgets what was: watches that are behind get 410.
  void Compact();
  // Requests fail, streams break and end, watches are told too old.
  void set_faults(bool faults);
  // Off: the server does not know sendInitialEvents.
  void set_watch_list(bool on);
  // All requests are answered with this; 0: as they should be.
  void set_answer(int status);
  void set_content_type(std::string type);

  std::map<ObjectKey, Ref> objects() const;
  // In the server's history; 0 for what it never had.
  size_t Position(const Toy& toy) const;
  std::vector<std::string> targets() const;

  std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) override;

 private:
  struct Exchange {
    HttpRequest request;
    ResponseHandler* handler = nullptr;
    bool answered = false;
    bool watch = false;
    // Of the history, that was written to `out`.
    size_t cursor = 0;
    std::string out;
    bool wants_more = true;
    bool ends = false;
    bool ended = false;
    bool destroyed = false;
    bool in_handler = false;
    std::thread::id handler_thread;
  };
  struct Event {
    // Null: deleted.
    Ref after;
    Ref before;
    std::string resource_version;
  };
  // One call of a handler.
  struct Deed {
    absl::optional<HttpHead> head;
    std::string bytes;
    absl::optional<absl::Status> end;
  };
  class CallImpl;

  void Poke() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  bool HasWork(const Exchange& exchange) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Deed Next(Exchange* exchange) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Deed Answer(Exchange* exchange) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void List(Exchange* exchange, HttpHead* head) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginWatch(Exchange* exchange, HttpHead* head) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendEvents(Exchange* exchange) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendExpired(Exchange* exchange) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::map<ObjectKey, Ref> StateAt(size_t position) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string VersionAt(size_t position) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration max_delay_;
  Strand* const strand_;
  mutable absl::Mutex mutex_;
  absl::CondVar left_handler_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Exchange>> exchanges_ ABSL_GUARDED_BY(mutex_);
  std::vector<Event> history_ ABSL_GUARDED_BY(mutex_);
  std::map<ObjectKey, Ref> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, size_t, std::less<>> positions_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> targets_ ABSL_GUARDED_BY(mutex_);
  size_t compacted_ ABSL_GUARDED_BY(mutex_) = 0;
  bool faults_ ABSL_GUARDED_BY(mutex_) = false;
  bool watch_list_ ABSL_GUARDED_BY(mutex_) = true;
  int answer_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string content_type_ ABSL_GUARDED_BY(mutex_) = "application/json";
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_TOY_API_SERVER_H_
