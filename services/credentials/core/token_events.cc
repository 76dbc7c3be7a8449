// What credentials decides about JWT-SVIDs and the keys that sign them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/credentials_core.h"

namespace capstan::credentials {
namespace {

std::string IssuedMessage(const JwtOrder& order) {
  return absl::StrCat("Issued token ", order.id, " as ", order.subject, " for `",
                      absl::StrJoin(order.audiences, "`, `"), "`, valid until ",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", order.expires, absl::UTCTimeZone()),
                      ".");
}

}  // namespace

absl::Status CredentialsCore::CheckNode(const std::string& node, const std::string& task,
                                        absl::Time now, bool must_hold) const {
  const absl::optional<std::string> holder = issuance_.NodeOf(task, now);
  if (holder.has_value() ? *holder == node : !must_hold) return absl::OkStatus();
  return status::Error(absl::StatusCode::kPermissionDenied, "NOT_THE_TASKS_NODE",
                       "The Task does not run on the calling Node.");
}

Step CredentialsCore::On(const IssueTaskJwt& event, const Now& now) {
  const std::string node = event.node.ToString();
  const std::string task = event.task.ToString();
  const auto refuse = [&](const absl::Status& answer, const std::string& message) {
    return Refuse(event.call, node, act::kIssueTaskJwt, task, answer, message, now);
  };
  if (absl::Status denied = CheckNotDenied(node, event.serial); !denied.ok()) {
    return refuse(denied, "The Node has been denied.");
  }
  JwtOrder order;
  order.subject = event.as_service_account
                      ? auth::SpiffeId::ServiceAccount(event.task.trust_domain, event.task.project,
                                                       event.task.service_account)
                            .ToString()
                      : task;
  for (const std::string& id : {task, order.subject}) {
    if (absl::Status denied = CheckNotDenied(id, ""); !denied.ok()) {
      return refuse(denied, "The Task has been denied.");
    }
  }
  if (absl::Status held = CheckNode(node, task, now.wall, /*must_hold=*/true); !held.ok()) {
    return refuse(held, "The Node holds no SVID of the Task.");
  }
  const std::string project = absl::StrCat("projects/", event.task.project);
  if (policy_.FindProject(project) == nullptr) {
    return refuse(status::NotFound(project), "There is no such Project.");
  }
  Step step;
  const v1::JwtKeyRecord* const key = jwt_keys_.Signer(event.algorithm, now.wall);
  if (key == nullptr) {
    // No refusal: the same is asked again in a moment.
    step.after.push_back(
        Reply{event.call,
              status::WithRetryDelay(status::Error(absl::StatusCode::kUnavailable, "NO_SIGNING_KEY",
                                                   "The key that signs tokens is being made."),
                                     absl::Seconds(1))});
    return step;
  }
  order.key_id = key->key_id();
  order.id = event.token_id;
  order.audiences = event.audiences;
  // Tokens speak in whole seconds.
  order.issued_at = absl::FromUnixSeconds(absl::ToUnixSeconds(now.wall));
  order.expires = order.issued_at + std::min(event.ttl, config_.jwt_keys.max_token_ttl);
  order.job = event.job;
  order.task = event.task;
  Audit(node, act::kIssueTaskJwt, task, IssuedMessage(order), now, &step);
  step.after.push_back(Reply{event.call, Outcome(std::move(order))});
  return step;
}

Step CredentialsCore::On(const JwtKeyMade& event, const Now& now) {
  Step step;
  if (!event.record.ok()) {
    jwt_keys_.Failed(event.algorithm, now.wall);
    return step;
  }
  // Another replica has made one meanwhile.
  if (!jwt_keys_.Wants(event.algorithm, now.wall)) return step;
  jwt_keys_.Add(*event.record, now.wall, &step);
  const std::string id = IdOf("/svc/credentials");
  Audit(id, act::kMakeJwtKey, absl::StrCat("jwtKeys/", event.record->key_id()),
        absl::StrCat("Made a key for ", event.algorithm, " tokens."), now, &step);
  PublishKeys(&step);
  return step;
}

void CredentialsCore::PublishKeys(Step* step) const {
  step->after.push_back(PublishJwtKeys{std::make_shared<const JwtKeySet>(jwt_keys_.Published())});
}

void CredentialsCore::RotateKeys(absl::Time now, Step* step) {
  for (std::string& algorithm : jwt_keys_.TakeDue(now)) {
    step->after.push_back(MakeJwtKey{std::move(algorithm)});
  }
  if (jwt_keys_.Prune(now, step)) PublishKeys(step);
}

}  // namespace capstan::credentials
