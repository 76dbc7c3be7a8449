#include "services/credentials/core/audit_chain.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libs/digest/sha256.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

// 32 windows are 32 records: with the head well below a transaction's 128 operations.
constexpr int kMaxCloses = 32;

void PutOnce(std::string key, std::string value, Step* step) {
  for (store::Put& put : step->puts) {
    if (put.key == key) {
      put.value = std::move(value);
      return;
    }
  }
  step->puts.push_back({.key = std::move(key), .value = std::move(value)});
}

}  // namespace

void AuditChain::Append(const AuditEntry& entry, const Now& now, Step* step) {
  event::v1::AuditRecord record;
  record.set_chain(kAuditChain);
  record.set_sequence(head_.sequence() + 1);
  record.set_previous_hash(head_.hash().empty() ? std::string(32, '\0') : head_.hash());
  *record.mutable_record_time() = ToProto(now.wall);
  record.set_principal(entry.principal);
  record.set_act(entry.act);
  record.set_resource(entry.resource);
  record.set_outcome_code(entry.outcome_code);
  record.set_message(entry.message);
  record.set_repeats(entry.repeats);
  std::string bytes = record.SerializeAsString();

  head_.set_schema(kSchema);
  head_.set_sequence(record.sequence());
  head_.set_hash(Sha256::Of(bytes));
  step->puts.push_back({.key = AuditKey(record.sequence()), .value = std::move(bytes)});
  PutOnce(kAuditHeadKey, head_.SerializeAsString(), step);
}

void AuditChain::AppendRefusal(const AuditEntry& entry, const Now& now, Step* step) {
  Kind kind(entry.principal, entry.act, entry.resource, entry.outcome_code);
  auto window = windows_.find(kind);
  if (window == windows_.end() && windows_.size() >= kMaxWindows) {
    kind = Kind("*", entry.act, "", entry.outcome_code);
    window = windows_.find(kind);
  }
  if (window != windows_.end()) {
    ++window->second.repeats;
    return;
  }
  windows_[std::move(kind)] = {.end = now.boot + fold_window_};
  Append(entry, now, step);
}

void AuditChain::CloseWindows(const Now& now, bool flush, Step* step) {
  int closed = 0;
  for (auto it = windows_.begin(); it != windows_.end();) {
    if (closed >= kMaxCloses || (!flush && it->second.end > now.boot)) {
      ++it;
      continue;
    }
    if (it->second.repeats > 0) {
      const auto& [principal, act, resource, code] = it->first;
      Append({.principal = principal,
              .act = act,
              .resource = resource,
              .outcome_code = code,
              .message = "Repeated within the window that this record closes.",
              .repeats = it->second.repeats},
             now, step);
      ++closed;
    }
    it = windows_.erase(it);
  }
}

BootTime AuditChain::NextDeadline() const {
  BootTime next = BootTime::InfiniteFuture();
  for (const auto& [kind, window] : windows_) next = std::min(next, window.end);
  return next;
}

}  // namespace capstan::credentials
