// What credentials decides about certificates and tokens.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

using Kind = auth::SpiffeId::Kind;

// Whoever tries tokens learns nothing about which exist.
absl::Status InvalidToken() {
  return status::Error(absl::StatusCode::kUnauthenticated, "INVALID_JOIN_TOKEN",
                       "The join token is not valid: unknown, expired or used before. Make another "
                       "one.");
}

std::string IssuedMessage(const IssueOrder& order) {
  return absl::StrCat("Issued certificate ", order.serial, ", valid until ",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", order.not_after, absl::UTCTimeZone()),
                      ".");
}

}  // namespace

Step CredentialsCore::On(const CreateJoinToken& event, const Now& now) {
  const std::string path = event.identity.Path();
  const std::string spiffe_id = IdOf(path);
  if (absl::Status denied = CheckNotDenied(spiffe_id, ""); !denied.ok()) {
    return Refuse(event.call, event.principal, act::kCreateJoinToken, spiffe_id, denied,
                  "The identity has been denied.", now);
  }
  Step step;
  v1::JoinTokenRecord record;
  record.set_schema(kSchema);
  record.set_id(event.token_id);
  record.set_secret_sha256(event.secret_sha256);
  record.set_path(path);
  *record.mutable_expire_time() = ToProto(now.wall + event.ttl);
  record.set_creator(event.principal);
  if (absl::Status added = issuance_.AddToken(record, &step); !added.ok()) {
    return Refuse(event.call, event.principal, act::kCreateJoinToken, spiffe_id, added,
                  std::string(added.message()), now);
  }
  Audit(event.principal, act::kCreateJoinToken, spiffe_id,
        absl::StrCat("Made join token ", event.token_id, "."), now, &step);
  step.after.push_back(Reply{event.call, Outcome(TokenMade{spiffe_id, now.wall + event.ttl})});
  return step;
}

Step CredentialsCore::On(const Join& event, const Now& now) {
  if (absl::Status room = issuance_.CheckRoom(event.key.serial); !room.ok()) {
    return Refuse(event.call, kAnonymous, act::kJoin, "", room, "There is no room.", now);
  }
  if (const auto path = issuance_.PathOfToken(event.token_id); path.has_value()) {
    // The deny list must win before the token is spent; and the secret is not needed to know that a
    // denied identity gets nothing.
    if (policy_.IsDeniedId(IdOf(*path))) {
      return Refuse(event.call, kAnonymous, act::kJoin, absl::StrCat("joinTokens/", event.token_id),
                    InvalidToken(), absl::StrCat("`", IdOf(*path), "` has been denied."), now);
    }
  }
  Step step;
  auto redeemed = issuance_.Redeem(event, now.wall, &step);
  if (const auto* refusal = std::get_if<IssuanceState::Refusal>(&redeemed)) {
    return Refuse(event.call, kAnonymous, act::kJoin, refusal->resource, InvalidToken(),
                  refusal->message, now);
  }
  const std::string spiffe_id = IdOf(std::get<std::string>(redeemed));
  // Tokens are made for services, executors and Nodes alone, which all have the same life.
  IssueOrder order = Issue(spiffe_id, Kind::kService, event.key, now.wall, now, &step);
  Audit(kAnonymous, act::kJoin, spiffe_id,
        absl::StrCat("Redeemed joinTokens/", event.token_id, ". ", IssuedMessage(order)), now,
        &step);
  step.after.push_back(Reply{event.call, Outcome(std::move(order))});
  return step;
}

Step CredentialsCore::On(const RenewSvid& event, const Now& now) {
  const std::string spiffe_id = event.identity.ToString();
  const auto refuse = [&](const absl::Status& answer) {
    return Refuse(event.call, spiffe_id, act::kRenewSvid, spiffe_id, answer,
                  std::string(answer.message()), now);
  };
  if (absl::Status denied = CheckNotDenied(spiffe_id, event.serial); !denied.ok()) {
    return refuse(denied);
  }
  absl::Time session_start = issuance_.SessionStart(event.serial).value_or(now.wall);
  if (event.identity.kind == Kind::kPerson) {
    // A person's serial that is not known may not start a session: only the kernel's word does.
    const auto known = issuance_.SessionStart(event.serial);
    if (!known.has_value() || now.wall - *known > config_.person_session) {
      return refuse(status::Error(absl::StatusCode::kUnauthenticated, "SESSION_OVER",
                                  "The session has lasted its longest; get a new SVID from the "
                                  "people's socket."));
    }
  }
  if (absl::Status room = issuance_.CheckRoom(event.key.serial); !room.ok()) return refuse(room);
  Step step;
  IssueOrder order = Issue(spiffe_id, event.identity.kind, event.key, session_start, now, &step);
  Audit(spiffe_id, act::kRenewSvid, spiffe_id, IssuedMessage(order), now, &step);
  step.after.push_back(Reply{event.call, Outcome(std::move(order))});
  return step;
}

Step CredentialsCore::On(const IssueTaskSvid& event, const Now& now) {
  const std::string node = event.node.ToString();
  const std::string spiffe_id = event.task.ToString();
  const auto refuse = [&](const absl::Status& answer, const std::string& message) {
    return Refuse(event.call, node, act::kIssueTaskSvid, spiffe_id, answer, message, now);
  };
  if (absl::Status denied = CheckNotDenied(node, event.serial); !denied.ok()) {
    return refuse(denied, "The Node has been denied.");
  }
  if (absl::Status denied = CheckNotDenied(spiffe_id, ""); !denied.ok()) {
    return refuse(denied, "The Task has been denied.");
  }
  const std::string project = absl::StrCat("projects/", event.task.project);
  if (policy_.FindProject(project) == nullptr) {
    return refuse(status::NotFound(project), "There is no such Project.");
  }
  if (absl::Status held = CheckNode(node, spiffe_id, now.wall, /*must_hold=*/false); !held.ok()) {
    return refuse(held, "Another Node holds an SVID of the Task.");
  }
  if (absl::Status room = issuance_.CheckRoom(event.key.serial); !room.ok()) {
    return refuse(room, "There is no room.");
  }
  Step step;
  IssueOrder order = Issue(spiffe_id, Kind::kTask, event.key, now.wall, now, &step, node);
  Audit(node, act::kIssueTaskSvid, spiffe_id, IssuedMessage(order), now, &step);
  step.after.push_back(Reply{event.call, Outcome(std::move(order))});
  return step;
}

Step CredentialsCore::On(const IssuePersonSvid& event, const Now& now) {
  const std::string uid = absl::StrCat(event.unix_uid);
  const std::string spiffe_id = IdOf(absl::StrCat("/person/", uid));
  const auto refuse = [&](const absl::Status& answer) {
    return Refuse(event.call, spiffe_id, act::kIssuePersonSvid, spiffe_id, answer,
                  std::string(answer.message()), now);
  };
  if (absl::Status denied = CheckNotDenied(spiffe_id, ""); !denied.ok()) return refuse(denied);
  if (absl::Status room = issuance_.CheckRoom(event.key.serial); !room.ok()) return refuse(room);
  Step step;
  if (persons_.insert(uid).second) {
    v1::PersonRecord person;
    person.set_schema(kSchema);
    person.set_uid(uid);
    person.set_issuer("unix");
    person.set_subject(uid);
    *person.mutable_create_time() = ToProto(now.wall);
    step.puts.push_back({.key = PersonKey(uid), .value = person.SerializeAsString()});
  }
  IssueOrder order = Issue(spiffe_id, Kind::kPerson, event.key, now.wall, now, &step);
  Audit(spiffe_id, act::kIssuePersonSvid, spiffe_id, IssuedMessage(order), now, &step);
  step.after.push_back(Reply{event.call, Outcome(std::move(order))});
  return step;
}

Step CredentialsCore::On(const IssueOwnSvid& event, const Now& now) {
  const std::string spiffe_id = IdOf("/svc/credentials");
  if (absl::Status room = issuance_.CheckRoom(event.key.serial); !room.ok()) {
    Step step;
    step.after.push_back(Reply{event.call, room});
    return step;
  }
  Step step;
  IssueOrder order = Issue(spiffe_id, Kind::kService, event.key, now.wall, now, &step);
  Audit(spiffe_id, act::kIssueOwnSvid, spiffe_id, IssuedMessage(order), now, &step);
  step.after.push_back(Reply{event.call, Outcome(std::move(order))});
  return step;
}

}  // namespace capstan::credentials
