#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_CORE_HARNESS_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_CORE_HARNESS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "libs/auth/spiffe_id.h"
#include "libs/digest/sha256.h"
#include "libs/time/clock.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/event.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {

// The core with a disk: applies events, keeps what they persist, and can lose everything else.
class CoreHarness {
 public:
  static constexpr char kDomain[] = "capstan-00000000.local";

  explicit CoreHarness(CoreConfig config = {}) : config_(config) {
    now_.wall = absl::FromUnixSeconds(1'800'000'000);
    now_.boot = BootTime::FromNanoseconds(1'000'000'000);
    core_ = std::make_unique<CredentialsCore>(config_);
    FirstRun first_run;
    first_run.trust_domain.set_name(kDomain);
    first_run.admin_uid = 1000;
    first_run.project_uid = "7c9b35f1-9d8c-4f65-8f2f-6a4d4d6f0a11";
    Apply(first_run);
  }

  // Applies, commits, and returns the answer to the event's call, if it was answered.
  absl::optional<absl::StatusOr<Outcome>> Apply(const Event& event) {
    Step step = core_->Apply(event, now_);
    Commit(step);
    return AnswerIn(&step);
  }

  Step ApplyWithoutCommit(const Event& event) { return core_->Apply(event, now_); }

  void Commit(const Step& step) {
    operations_ = step.puts.size() + step.deletes.size();
    for (const store::Put& put : step.puts) disk_[put.key] = put.value;
    for (const store::Delete& erase : step.deletes) disk_.erase(erase.key);
  }

  absl::optional<absl::StatusOr<Outcome>> AnswerIn(Step* step) {
    absl::optional<absl::StatusOr<Outcome>> answer;
    for (Effect& effect : step->after) {
      if (auto* reply = std::get_if<Reply>(&effect)) answer = std::move(reply->outcome);
      if (auto* publish = std::get_if<PublishPolicy>(&effect)) published_ = publish->snapshot;
    }
    return answer;
  }

  // A restart: all that is not on the disk is gone.
  absl::Status Reload() {
    core_ = std::make_unique<CredentialsCore>(config_);
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : disk_) {
      store::KeyValue kv;
      kv.key = key;
      kv.value = value;
      records.push_back(std::move(kv));
    }
    return core_->Load(records);
  }

  void Advance(absl::Duration by) {
    now_.wall += by;
    now_.boot = now_.boot + by;
  }

  // The chain on the disk; nothing if it is broken.
  absl::optional<std::vector<event::v1::AuditRecord>> Chain() const {
    std::vector<event::v1::AuditRecord> records;
    std::string hash(32, '\0');
    const std::string prefix = kAuditPrefix;
    for (auto it = disk_.lower_bound(prefix);
         it != disk_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
      event::v1::AuditRecord record;
      if (!record.ParseFromString(it->second) || record.previous_hash() != hash ||
          record.sequence() != static_cast<int64_t>(records.size()) + 1) {
        return absl::nullopt;
      }
      hash = Sha256::Of(it->second);
      records.push_back(std::move(record));
    }
    v1::AuditHeadRecord head;
    if (!head.ParseFromString(disk_.at(kAuditHeadKey)) || head.hash() != hash ||
        head.sequence() != static_cast<int64_t>(records.size())) {
      return absl::nullopt;
    }
    return records;
  }

  // A key with a serial that was never given before.
  CertifiableKey Key(const std::string& name) {
    return {.spki = name, .serial = absl::StrFormat("4%031x", ++serials_)};
  }

  // Makes a token `id` with secret `id`.
  absl::optional<absl::StatusOr<Outcome>> MakeToken(const std::string& id, const std::string& path,
                                                    absl::Duration ttl = absl::Minutes(15)) {
    CreateJoinToken event;
    event.call = 1;
    event.principal = Id("/person/1000");
    event.identity = *auth::SpiffeId::ParsePath(kDomain, path);
    event.ttl = ttl;
    event.token_id = id;
    event.secret_sha256 = Sha256::Of(id);
    return Apply(event);
  }

  Join JoinEvent(const std::string& id, const std::string& secret, const std::string& key) {
    Join event;
    event.call = 1;
    event.token_id = id;
    event.secret_sha256 = Sha256::Of(secret);
    event.key = Key(key);
    return event;
  }

  static std::string Id(const std::string& path) {
    return std::string("spiffe://") + kDomain + path;
  }

  CredentialsCore& core() { return *core_; }
  const Now& now() const { return now_; }
  const std::map<std::string, std::string>& disk() const { return disk_; }
  std::map<std::string, std::string>& disk() { return disk_; }
  const v1::PolicySnapshot* published() const { return published_.get(); }
  // Of the last commit.
  size_t operations() const { return operations_; }

 private:
  const CoreConfig config_;
  Now now_;
  std::map<std::string, std::string> disk_;
  std::unique_ptr<CredentialsCore> core_;
  std::shared_ptr<const v1::PolicySnapshot> published_;
  size_t operations_ = 0;
  int64_t serials_ = 0;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_CORE_HARNESS_H_
