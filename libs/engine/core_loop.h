// What an engine does around its core: load, persist, then act.
#ifndef CAPSTAN_LIBS_ENGINE_CORE_LOOP_H_
#define CAPSTAN_LIBS_ENGINE_CORE_LOOP_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/engine/submit_in_pieces.h"
#include "libs/store/commit_queue.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::engine {

// Reads every key in [prefix, PrefixEnd(prefix)) as of one revision, page by page.
void ReadAll(store::Store* store, const std::string& prefix,
             store::Callback<std::vector<store::KeyValue>> done);

// Runs a core of a store with one writer. `Core` has
//   Step Apply(const Event&, Now);  absl::optional<BootTime> NextDeadline() const;
// and `Step` has `puts`, `deletes` and `after`, a vector of effects. Effects are carried out in
// order, each only after everything persisted before it is committed. When a commit fails the core
// is dropped, and after a second read again from the store. `Tick` is the event given at
// NextDeadline.
//
// Everything on one strand, destruction included; nothing is called after it.
template <typename Core, typename Event, typename Step, typename Tick>
class CoreLoop {
 public:
  using Effect = typename decltype(Step::after)::value_type;

  struct Hooks {
    std::function<absl::StatusOr<Core>(const std::vector<store::KeyValue>&, Now)> load;
    // The core is there and takes events.
    std::function<void()> loaded;
    // The core is gone: whoever talked through it must begin anew.
    std::function<void(const absl::Status&)> dropped;
    std::function<void(Effect)> carry_out;
    // After each step, for metrics; may be null.
    std::function<void(const Core&)> stepped;
  };

  CoreLoop(Strand* strand, store::Store* store, std::string prefix, Hooks hooks)
      : strand_(strand), store_(store), prefix_(std::move(prefix)), hooks_(std::move(hooks)) {}
  ~CoreLoop() { Unload(); }
  CoreLoop(const CoreLoop&) = delete;
  CoreLoop& operator=(const CoreLoop&) = delete;

  // Reads the store; `loaded` follows, or after an error `dropped` and another try.
  void Start() {
    ReadAll(store_, prefix_,
            [this, alive = std::weak_ptr<char>(alive_)](
                absl::StatusOr<std::vector<store::KeyValue>> records) {
              if (alive.expired()) return;
              if (!records.ok()) return Reload(records.status());
              absl::StatusOr<Core> core = hooks_.load(*records, strand_->clock().Read());
              if (!core.ok()) return Reload(core.status());
              core_.emplace(*std::move(core));
              queue_ = std::make_unique<store::CommitQueue>(store_, strand_, absl::nullopt);
              hooks_.loaded();
            });
  }

  // Null while nothing is loaded.
  const Core* core() const { return core_.has_value() ? &*core_ : nullptr; }
  // True when new work from outside should be refused for a while.
  bool congested() const { return queue_ == nullptr || queue_->congested(); }

  // Runs it once no more than 1,024 steps wait to be stored: at once, or, in the order of asking, as
  // they are. Drops it with the core, or if there is none. For sources of events that can wait,
  // which leaves room for those that cannot: all effects wait for what was persisted before them,
  // those that renew a lease too.
  void WhenRelieved(absl::AnyInvocable<void()> go_on) {
    if (queue_ == nullptr) return;
    if (relieved() && waiting_.empty()) return go_on();
    waiting_.push_back(std::move(go_on));
  }

  // Steps the core; without a core, nothing.
  void Apply(const Event& event) {
    if (!core_.has_value()) return;
    Step step = core_->Apply(event, strand_->clock().Read());
    SubmitInPieces(*queue_, std::move(step.puts), std::move(step.deletes),
                   [this, after = std::move(step.after)](absl::StatusOr<int64_t> revision) mutable {
                     if (!revision.ok()) return Reload(revision.status());
                     if (CarryOut(std::move(after))) Relieve();
                   });
    ArmTimer();
    if (hooks_.stepped) hooks_.stepped(*core_);
  }

 private:
  bool relieved() const { return queue_ != nullptr && queue_->waiting() <= kRelievedAt; }

  // False if the core went with it.
  bool CarryOut(std::vector<Effect> after) {
    const std::weak_ptr<char> life = life_;
    for (Effect& effect : after) {
      hooks_.carry_out(std::move(effect));
      if (life.expired()) return false;
    }
    return true;
  }

  void Relieve() {
    const std::weak_ptr<char> life = life_;
    while (!life.expired() && !waiting_.empty() && relieved()) {
      absl::AnyInvocable<void()> go_on = std::move(waiting_.front());
      waiting_.pop_front();
      go_on();
    }
  }

  void ArmTimer() {
    const absl::optional<BootTime> next = core_->NextDeadline();
    if (next == armed_for_ && (timer_ != 0) == next.has_value()) return;
    if (timer_ != 0) strand_->Cancel(timer_);
    timer_ = 0;
    armed_for_ = next;
    if (!next.has_value()) return;
    timer_ = strand_->RunAt(*next, [this, life = std::weak_ptr<char>(life_)] {
      if (life.expired()) return;
      timer_ = 0;
      Apply(Tick{});
    });
  }

  void Unload() {
    if (timer_ != 0) strand_->Cancel(timer_);
    timer_ = 0;
    life_ = std::make_shared<char>();
    waiting_.clear();
    queue_.reset();
    core_.reset();
  }

  void Reload(const absl::Status& why) {
    Unload();
    const std::weak_ptr<char> alive = alive_;
    hooks_.dropped(why);
    if (alive.expired()) return;
    strand_->RunAfter(absl::Seconds(1), [this, alive] {
      if (!alive.expired()) Start();
    });
  }

  static constexpr size_t kRelievedAt = 1024;

  Strand* const strand_;
  store::Store* const store_;
  const std::string prefix_;
  const Hooks hooks_;
  absl::optional<Core> core_;
  std::unique_ptr<store::CommitQueue> queue_;
  std::deque<absl::AnyInvocable<void()>> waiting_;  // WhenRelieved
  Strand::TimerId timer_ = 0;
  absl::optional<BootTime> armed_for_;
  // Expire with the object, and with the loaded core.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace capstan::engine

#endif  // CAPSTAN_LIBS_ENGINE_CORE_LOOP_H_
