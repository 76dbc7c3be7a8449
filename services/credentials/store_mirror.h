#ifndef CAPSTAN_SERVICES_CREDENTIALS_STORE_MIRROR_H_
#define CAPSTAN_SERVICES_CREDENTIALS_STORE_MIRROR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::credentials {

// The records below a root as of the newest revision that is known here, and transactions that take
// effect only on top of exactly these. Several replicas may do so over one store: every transaction
// puts the turn key and compares that nobody has put it since, so that each takes effect on top of
// all others, or not at all; a watch brings what the others commit. There is no leader, no lease
// and nothing to wait for when a replica dies.
//
// On the strand only, construction and destruction included; no callback runs after destruction.
class StoreMirror {
 public:
  struct Options {
    // With a `/` at its end.
    std::string root;
    // Below the root.
    std::string turn_key;
    // Records below it are written and not kept here.
    std::string unkept_prefix;
    // What the turn key's value says; for people.
    std::string replica;
    // How often the store is asked whether it still answers.
    absl::Duration probe_every = absl::Seconds(1);
    // Without an answer for so long this replica cannot say what is in force.
    absl::Duration cut_off_after = absl::Seconds(5);
  };
  // What another replica has committed.
  struct Change {
    std::vector<store::KeyValue> puts;
    // Something was deleted: start afresh from records().
    bool deleted = false;
  };
  struct Callbacks {
    // The records are there. Once.
    absl::AnyInvocable<void()> on_loaded;
    // After on_loaded, never while a Commit is under way.
    absl::AnyInvocable<void(const Change&)> on_change;
    // After on_loaded: false once the store has not answered for `cut_off_after`, then true when it
    // does.
    absl::AnyInvocable<void(bool)> on_contact;
    // Nothing more comes; stop it and make another.
    absl::AnyInvocable<void(const absl::Status&)> on_failed;
  };
  // True: committed. False: another replica was faster and nothing was done; records() then holds
  // what it did. An error leaves open what was done and ends the mirror, without on_failed.
  using CommitDone = absl::AnyInvocable<void(absl::StatusOr<bool>)>;

  // Both must outlive it; `strand` is the one on which the store calls back.
  StoreMirror(store::Store* store, Strand* strand, Options options);
  ~StoreMirror();
  StoreMirror(const StoreMirror&) = delete;
  StoreMirror& operator=(const StoreMirror&) = delete;

  void Start(Callbacks callbacks);
  // No callback runs any more: for owners that end it from within one, and destroy it later.
  void Stop();

  // By key, the turn key included.
  const std::map<std::string, store::KeyValue>& records() const { return records_; }
  std::vector<store::KeyValue> RecordList() const;

  // One at a time; each key once, no ranges. Without operations only the compare is made.
  void Commit(std::vector<store::Op> ops, CommitDone done);

 private:
  void LoadPage(std::string from, int64_t revision);
  void Loaded(int64_t revision);
  void OnBatch(const store::WatchBatch& batch);
  void Absorb(const store::WatchBatch& batch);
  void AnswerConflict();
  void ArmProbe();
  void Probe();
  void OnProbe(BootTime sent, absl::StatusOr<store::RangeResult> found);
  void Contact(BootTime when);
  void Fail(const absl::Status& why);
  bool Keeps(const std::string& key) const;

  store::Store* const store_;
  Strand* const strand_;
  const Options options_;
  Callbacks callbacks_;
  std::map<std::string, store::KeyValue> records_;
  std::unique_ptr<store::Watch> watch_;
  // Revision of the turn key that `records_` is at.
  int64_t turn_ = 0;
  // Of our own last transaction; what the watch tells of it and before it is here already.
  int64_t applied_ = 0;
  bool committing_ = false;
  // Came while a transaction was under way.
  std::deque<store::WatchBatch> waiting_;
  // A transaction that lost to another one, which the watch has not told of yet.
  CommitDone conflict_;
  int64_t conflict_turn_ = 0;
  bool probing_ = false;
  bool cut_off_ = false;
  // When the store last answered, counted from the question; and since when the watch is known to
  // be behind it.
  BootTime contact_;
  BootTime behind_since_ = BootTime::InfiniteFuture();
  Strand::TimerId probe_timer_ = 0;
  // Expires when the mirror stops: callbacks of the store hold it weakly.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_STORE_MIRROR_H_
