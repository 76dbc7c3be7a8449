#include "services/credentials/store_mirror.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"

namespace capstan::credentials {
namespace {

constexpr int64_t kPage = 2'000;

}  // namespace

StoreMirror::StoreMirror(store::Store* store, Strand* strand, Options options)
    : store_(store), strand_(strand), options_(std::move(options)) {}

StoreMirror::~StoreMirror() { Stop(); }

void StoreMirror::Stop() {
  if (probe_timer_ != 0) strand_->Cancel(std::exchange(probe_timer_, 0));
  alive_ = nullptr;
}

void StoreMirror::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  LoadPage(options_.root, 0);
}

std::vector<store::KeyValue> StoreMirror::RecordList() const {
  std::vector<store::KeyValue> list;
  list.reserve(records_.size());
  for (const auto& [key, kv] : records_) list.push_back(kv);
  return list;
}

bool StoreMirror::Keeps(const std::string& key) const {
  return !absl::StartsWith(key, options_.unkept_prefix);
}

void StoreMirror::LoadPage(std::string from, int64_t revision) {
  store::RangeRequest request;
  request.key = std::move(from);
  request.end = store::PrefixEnd(options_.root);
  request.limit = kPage;
  request.revision = revision;
  store_->Range(std::move(request), [this, alive = std::weak_ptr<char>(alive_)](
                                        absl::StatusOr<store::RangeResult> page) mutable {
    if (alive.expired()) return;
    if (!page.ok()) return Fail(page.status());
    const bool more = page->more;
    std::string next;
    if (more) {
      next = page->kvs.back().key;
      next = Keeps(next) ? next + '\0' : store::PrefixEnd(options_.unkept_prefix);
    }
    for (store::KeyValue& kv : page->kvs) {
      std::string key = kv.key;
      if (Keeps(key)) records_[std::move(key)] = std::move(kv);
    }
    if (more) return LoadPage(std::move(next), page->revision);
    Loaded(page->revision);
  });
}

void StoreMirror::Loaded(int64_t revision) {
  const auto turn = records_.find(options_.turn_key);
  if (turn != records_.end()) turn_ = turn->second.mod_revision;
  applied_ = revision;
  contact_ = strand_->clock().Read().boot;
  store::WatchRequest watch;
  watch.key = options_.root;
  watch.end = store::PrefixEnd(options_.root);
  watch.start_revision = revision + 1;
  watch_ = store_->StartWatch(std::move(watch), [this, alive = std::weak_ptr<char>(alive_)](
                                                    absl::StatusOr<store::WatchBatch> batch) {
    if (alive.expired()) return;
    if (!batch.ok()) return Fail(batch.status());
    OnBatch(*batch);
  });
  ArmProbe();
  callbacks_.on_loaded();
}

void StoreMirror::OnBatch(const store::WatchBatch& batch) {
  if (committing_) {
    waiting_.push_back(batch);
    return;
  }
  Absorb(batch);
}

void StoreMirror::Absorb(const store::WatchBatch& batch) {
  Change change;
  for (const store::WatchEvent& event : batch.events) {
    const store::KeyValue& kv = event.kv;
    if (kv.mod_revision <= applied_ || !Keeps(kv.key)) continue;
    if (kv.key == options_.turn_key) turn_ = kv.mod_revision;
    if (event.type == store::WatchEvent::Type::kDelete) {
      change.deleted = records_.erase(kv.key) > 0 || change.deleted;
      continue;
    }
    records_[kv.key] = kv;
    if (kv.key != options_.turn_key) change.puts.push_back(kv);
  }
  if (conflict_) {
    if (turn_ > conflict_turn_) AnswerConflict();
    return;
  }
  if (change.deleted || !change.puts.empty()) callbacks_.on_change(change);
}

void StoreMirror::Commit(std::vector<store::Op> ops, CommitDone done) {
  store::TxnRequest request;
  request.compares.push_back({.key = options_.turn_key,
                              .target = store::Compare::Target::kModRevision,
                              .op = store::Compare::Op::kEqual,
                              .number = turn_});
  request.then = ops;
  if (!ops.empty()) {
    request.then.emplace_back(store::Put{.key = options_.turn_key, .value = options_.replica});
  }
  committing_ = true;
  conflict_turn_ = turn_;
  conflict_ = nullptr;
  const BootTime sent = strand_->clock().Read().boot;
  store_->Txn(std::move(request),
              [this, alive = std::weak_ptr<char>(alive_), sent, ops = std::move(ops),
               done = std::move(done)](absl::StatusOr<store::TxnResult> result) mutable {
                if (alive.expired()) return;
                committing_ = false;
                if (!result.ok()) return done(result.status());
                Contact(sent);
                if (alive.expired()) return;
                if (result->succeeded) {
                  if (!ops.empty()) turn_ = applied_ = result->revision;
                  for (store::Op& op : ops) {
                    if (const auto* gone = std::get_if<store::Delete>(&op)) {
                      records_.erase(gone->key);
                      continue;
                    }
                    auto& put = std::get<store::Put>(op);
                    if (!Keeps(put.key)) continue;
                    store::KeyValue& kv = records_[put.key];
                    kv.key = put.key;
                    kv.value = std::move(put.value);
                    kv.mod_revision = result->revision;
                  }
                  done(true);
                } else {
                  conflict_ = std::move(done);
                }
                // What came meanwhile; what `done` has begun waits for its own end.
                while (!alive.expired() && !committing_ && !waiting_.empty()) {
                  const store::WatchBatch batch = std::move(waiting_.front());
                  waiting_.pop_front();
                  Absorb(batch);
                }
              });
}

void StoreMirror::AnswerConflict() { std::exchange(conflict_, nullptr)(false); }

void StoreMirror::ArmProbe() {
  probe_timer_ = strand_->RunAfter(options_.probe_every, [this] {
    probe_timer_ = 0;
    Probe();
  });
}

void StoreMirror::Probe() {
  ArmProbe();
  const BootTime now = strand_->clock().Read().boot;
  if (!cut_off_ && now - contact_ > options_.cut_off_after) {
    cut_off_ = true;
    callbacks_.on_contact(false);
    return;
  }
  if (now - behind_since_ > options_.cut_off_after) {
    return Fail(absl::UnavailableError("The store's watch has fallen silent."));
  }
  if (probing_) return;
  probing_ = true;
  store::RangeRequest request;
  request.key = options_.turn_key;
  store_->Range(std::move(request), [this, now, alive = std::weak_ptr<char>(alive_)](
                                        absl::StatusOr<store::RangeResult> found) {
    if (alive.expired()) return;
    probing_ = false;
    OnProbe(now, std::move(found));
  });
}

void StoreMirror::OnProbe(BootTime sent, absl::StatusOr<store::RangeResult> found) {
  if (!found.ok()) return;
  const int64_t turn = found->kvs.empty() ? 0 : found->kvs[0].mod_revision;
  // A transaction under way may be ours; the watch needs a moment in any case.
  if (turn <= turn_ || committing_) {
    behind_since_ = BootTime::InfiniteFuture();
  } else {
    behind_since_ = std::min(behind_since_, sent);
  }
  Contact(sent);
}

void StoreMirror::Contact(BootTime when) {
  contact_ = std::max(contact_, when);
  if (!cut_off_) return;
  cut_off_ = false;
  callbacks_.on_contact(true);
}

void StoreMirror::Fail(const absl::Status& why) {
  if (callbacks_.on_failed) std::exchange(callbacks_.on_failed, nullptr)(why);
}

}  // namespace capstan::credentials
