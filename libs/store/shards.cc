#include "libs/store/shards.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/store/shard_choice.h"

namespace capstan::store {
namespace {

Leadership::Options OptionsOf(const Shards::Options& options, absl::string_view key) {
  return {.key = absl::StrCat(options.prefix, key),
          .value = options.member,
          .ttl = options.ttl,
          .margin = options.margin,
          .retry_after = options.retry_after,
          .sole_owner = options.sole_owner};
}

std::string MemberPrefix(const Shards::Options& options) {
  return absl::StrCat(options.prefix, "member/");
}

// Answers once all of several have.
class AllDone {
 public:
  AllDone(int count, DoneCallback done) : left_(count), done_(std::move(done)) {}
  void One(absl::Status status) {
    if (!status.ok()) last_error_ = std::move(status);
    if (--left_ == 0) done_(last_error_);
  }

 private:
  int left_;
  DoneCallback done_;
  absl::Status last_error_;
};

}  // namespace

Shards::Shards(Store* store, Strand* strand, Options options)
    : store_(store),
      strand_(strand),
      options_(std::move(options)),
      membership_(store, strand, OptionsOf(options_, absl::StrCat("member/", options_.member))) {}

Shards::~Shards() { strand_->Cancel(retry_timer_); }

void Shards::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  if (options_.sole_owner) {
    members_ = {options_.member};
    return Balance();
  }
  membership_.Start({.on_gained = [] {}, .on_lost = [](const absl::Status&) {}});
  Look();
}

void Shards::Look() {
  const std::string prefix = MemberPrefix(options_);
  store_->Range(
      {.key = prefix, .end = PrefixEnd(prefix)},
      [this, prefix, alive = std::weak_ptr<char>(alive_)](absl::StatusOr<RangeResult> found) {
        if (alive.expired() || resigned_) return;
        if (!found.ok()) return LookAgain();
        members_.clear();
        for (const KeyValue& kv : found->kvs) members_.insert(kv.key.substr(prefix.size()));
        watch_ = store_->StartWatch(
            {.key = prefix, .end = PrefixEnd(prefix), .start_revision = found->revision + 1},
            [this, prefix, alive](absl::StatusOr<WatchBatch> batch) {
              if (alive.expired() || resigned_) return;
              if (!batch.ok()) return LookAgain();
              for (const WatchEvent& event : batch->events) {
                const std::string member = event.kv.key.substr(prefix.size());
                if (event.type == WatchEvent::Type::kPut) {
                  members_.insert(member);
                } else {
                  members_.erase(member);
                }
              }
              if (!batch->events.empty()) Balance();
            });
        Balance();
      });
}

void Shards::LookAgain() {
  strand_->Cancel(std::exchange(retry_timer_, 0));
  retry_timer_ = strand_->RunAfter(options_.retry_after, [this] {
    retry_timer_ = 0;
    watch_.reset();
    Look();
  });
}

void Shards::Balance() {
  const std::vector<std::string> owners = AssignShards(members_, options_.count);
  for (int shard = 0; shard < options_.count; ++shard) {
    const auto claimed = claims_.find(shard);
    if (owners[shard] != options_.member) {
      if (claimed == claims_.end()) continue;
      const std::unique_ptr<Leadership> given_up = std::move(claimed->second);
      claims_.erase(claimed);
      given_up->Resign([](const absl::Status&) {});
    } else if (claimed == claims_.end()) {
      auto& claim = claims_[shard];
      claim = std::make_unique<Leadership>(store_, strand_,
                                           OptionsOf(options_, absl::StrCat("shard/", shard)));
      claim->Start(
          {.on_gained = [this, shard, term = claim.get()] { callbacks_.on_gained(shard, *term); },
           .on_lost = [this,
                       shard](absl::Status why) { callbacks_.on_lost(shard, std::move(why)); }});
    }
  }
}

void Shards::StepDown(int shard, absl::Status why) {
  const auto claimed = claims_.find(shard);
  if (claimed != claims_.end()) claimed->second->StepDown(std::move(why));
}

void Shards::Resign(DoneCallback done) {
  resigned_ = true;
  watch_.reset();
  strand_->Cancel(std::exchange(retry_timer_, 0));
  const auto given_up = std::exchange(claims_, {});
  const auto all =
      std::make_shared<AllDone>(static_cast<int>(given_up.size()) + 1, std::move(done));
  for (const auto& [shard, claim] : given_up) {
    claim->Resign([all](absl::Status status) { all->One(std::move(status)); });
  }
  membership_.Resign([all](absl::Status status) { all->One(std::move(status)); });
}

}  // namespace capstan::store
