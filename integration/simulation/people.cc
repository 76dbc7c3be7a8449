#include "integration/simulation/people.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"

namespace capstan::simulation {
namespace {

using credentials::Answer;
using credentials::Event;

std::string Admin() { return auth::SpiffeId::Person(CredentialsActor::kDomain, "1000").ToString(); }

// Whether the act may or may not have happened.
bool Unknown(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

People::People(Network* network, const MachineClock* clock,
               std::vector<CredentialsActor*> credentials, std::vector<auth::SpiffeId> nodes)
    : Process(&network->world(), "people", clock),
      network_(network),
      credentials_(std::move(credentials)),
      nodes_(std::move(nodes)) {}

void People::Ask(const Event& event, Done done) {
  CredentialsActor* const replica = credentials_[world().random().Below(credentials_.size())];
  network_->Call<Answer>(
      this, replica, [replica, event](auto reply) { replica->Ask(event, std::move(reply)); },
      [done = std::move(done)](const absl::StatusOr<Answer>& outcome) { done(outcome); });
}

void People::Insist(const Event& event, Done done) {
  ++open_;
  Ask(event, [this, event, done = std::move(done)](const absl::StatusOr<Answer>& outcome) {
    --open_;
    if (!outcome.ok() && Unknown(outcome.status())) {
      ++open_;
      Later(absl::Seconds(2), [this, event, done] {
        --open_;
        Insist(event, done);
      });
      return;
    }
    done(outcome);
  });
}

void People::Act(absl::Duration end) {
  credentials::CreateProject project;
  project.request = {Admin(), world().random().Uuid4(), "body"};
  project.project_id = "p";
  project.display_name = "P";
  project.uid = world().random().Uuid4();
  Insist(project, [](const absl::StatusOr<Answer>&) {});
  Plan(end);
}

void People::Plan(absl::Duration end) {
  Later(world().random().Between(absl::Seconds(2), absl::Seconds(14)), [this, end] {
    if (world().now() >= end) return;
    switch (world().random().Below(5)) {
      case 0:
      case 1:
        DenyForAWhile();
        break;
      case 2:
        UseToken();
        break;
      case 3:
        AskForForeignTask();
        break;
      default:
        RenewNode();
    }
    Plan(end);
  });
}

void People::DenyForAWhile() {
  const std::string node = nodes_[world().random().Below(nodes_.size())].ToString();
  // Two at a time would take back each other's.
  if (!denied_.insert(node).second) return;
  world().Fault("denial");
  credentials::DenyIdentity deny;
  deny.principal = Admin();
  deny.spiffe_id = node;
  deny.reason = "simulated";
  ++open_;
  Insist(deny, [this, node](const absl::StatusOr<Answer>&) {
    Later(world().random().Between(absl::Seconds(1), absl::Seconds(60)), [this, node] {
      credentials::DeleteDenial back;
      back.principal = Admin();
      back.spiffe_id = node;
      back.reason = "simulated";
      Insist(back, [this, node](const absl::StatusOr<Answer>&) {
        denied_.erase(node);
        --open_;
      });
    });
  });
}

void People::UseToken() {
  credentials::CreateJoinToken make;
  make.principal = Admin();
  make.identity = nodes_[world().random().Below(nodes_.size())];
  make.ttl = absl::Minutes(15);
  // Drawn for each call, as the server does, also where one is made again: a token that is spent and
  // forgotten would else come to life when a stopped replica takes the first call at last.
  make.token_id = world().random().Uuid4();
  make.secret_sha256 = Sha256::Of(make.token_id);
  ++open_;
  Ask(make, [this, make](const absl::StatusOr<Answer>& outcome) {
    --open_;
    if (!outcome.ok() && Unknown(outcome.status())) {
      ++open_;
      Later(absl::Seconds(2), [this] {
        --open_;
        UseToken();
      });
      return;
    }
    credentials::Join join;
    join.token_id = make.token_id;
    join.secret_sha256 = make.secret_sha256;
    // With one key and with another, in any order, and again.
    for (int use = 0; use < 3; ++use) {
      join.key.spki = absl::StrCat("key-", world().random().Below(2));
      const absl::Duration when =
          world().random().Between(absl::Milliseconds(1), absl::Seconds(20));
      Later(when, [this, join] { Ask(join, [](const absl::StatusOr<Answer>&) {}); });
    }
  });
}

void People::RenewNode() {
  credentials::RenewSvid renew;
  renew.identity = nodes_[world().random().Below(nodes_.size())];
  renew.serial = std::string(32, '4');
  renew.key.spki = "renewed";
  Ask(renew, [](const absl::StatusOr<Answer>&) {});
}

void People::AskForForeignTask() {
  const std::vector<std::string>& tasks = credentials_.front()->witness().tasks();
  if (tasks.empty()) return;
  const auto task = auth::SpiffeId::Parse(tasks[world().random().Below(tasks.size())]);
  if (!task.ok()) return world().Violate("a certificate of no Task");
  credentials::IssueTaskSvid ask;
  ask.node = nodes_[world().random().Below(nodes_.size())];
  ask.serial = std::string(32, '4');
  ask.task = *task;
  ask.key.spki = "foreign";
  Ask(ask, [](const absl::StatusOr<Answer>&) {});
}

}  // namespace capstan::simulation
