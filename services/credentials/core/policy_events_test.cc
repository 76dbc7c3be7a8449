// Projects, role bindings, denials, and the chain that records them.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/audit_chain.h"
#include "services/credentials/core/core_harness.h"
#include "services/credentials/core/credentials_core.h"

namespace capstan::credentials {
namespace {

std::string Reason(const absl::optional<absl::StatusOr<Outcome>>& answer) {
  if (!answer.has_value()) return "no answer";
  return answer->ok() ? "OK" : status::Reason(answer->status());
}

CreateProject NewProject(const std::string& id, const std::string& request_id = "",
                         const std::string& body = "body") {
  CreateProject event;
  event.call = 1;
  event.request = {
      .principal = CoreHarness::Id("/person/1000"), .request_id = request_id, .body_sha256 = body};
  event.project_id = id;
  event.display_name = "Robots";
  event.uid = absl::StrCat("uid-", id);
  return event;
}

CreateRoleBinding NewBinding(const std::string& parent, const std::string& id,
                             v1::RoleBinding::Role role) {
  CreateRoleBinding event;
  event.call = 1;
  event.request.principal = CoreHarness::Id("/person/1000");
  event.parent = parent;
  event.role_binding_id = id;
  event.member = "person/1001";
  event.role = role;
  return event;
}

DeleteRoleBinding Removal(const std::string& name) {
  DeleteRoleBinding event;
  event.call = 1;
  event.principal = CoreHarness::Id("/person/1000");
  event.name = name;
  return event;
}

DenyIdentity Denial(const std::string& id) {
  DenyIdentity event;
  event.call = 1;
  event.principal = CoreHarness::Id("/person/1000");
  event.spiffe_id = id;
  event.reason = "test";
  return event;
}

TEST(FirstRunTest, MakesTheDefaultProjectAndItsAdmin) {
  CoreHarness h;
  EXPECT_TRUE(h.core().initialised());
  ASSERT_NE(h.published(), nullptr);
  ASSERT_EQ(h.published()->projects_size(), 1);
  EXPECT_EQ(h.published()->projects(0).name(), "projects/default");
  EXPECT_FALSE(h.published()->projects(0).etag().empty());
  ASSERT_EQ(h.published()->role_bindings_size(), 1);
  EXPECT_EQ(h.published()->role_bindings(0).name(), "roleBindings/first-admin");
  EXPECT_EQ(h.published()->role_bindings(0).member(), "person/1000");
  EXPECT_EQ(h.published()->role_bindings(0).role(), v1::RoleBinding::ROLE_ADMIN);
  ASSERT_EQ(h.Chain()->size(), 1u);
  EXPECT_EQ(h.Chain()->at(0).act(), act::kFirstRun);
}

TEST(PolicyTest, EveryChangeIsStoredRecordedAndPublishedUnderAHigherRevision) {
  CoreHarness h;
  int64_t revision = h.published()->revision();
  size_t records = h.Chain()->size();
  const std::vector<Event> changes = {
      NewProject("robots"), NewBinding("projects/robots", "ann", v1::RoleBinding::ROLE_RESEARCHER),
      NewBinding("", "ann", v1::RoleBinding::ROLE_VIEWER), Denial(CoreHarness::Id("/node/local/")),
      Removal("projects/robots/roleBindings/ann")};
  for (const Event& change : changes) {
    ASSERT_EQ(Reason(h.Apply(change)), "OK");
    EXPECT_GT(h.published()->revision(), revision);
    revision = h.published()->revision();
    ASSERT_TRUE(h.Chain().has_value());
    EXPECT_EQ(h.Chain()->size(), ++records);
    EXPECT_EQ(h.Chain()->back().principal(), CoreHarness::Id("/person/1000"));
    // What is in memory is what is on the disk.
    const std::string in_memory = h.core().Snapshot().SerializeAsString();
    ASSERT_TRUE(h.Reload().ok());
    EXPECT_EQ(h.core().Snapshot().SerializeAsString(), in_memory);
  }
  EXPECT_EQ(h.published()->role_bindings_size(), 2);
  EXPECT_EQ(h.published()->denied_ids(0), CoreHarness::Id("/node/local/"));
}

TEST(PolicyTest, RefusalsChangeNothingAndAreRecorded) {
  CoreHarness h;
  ASSERT_EQ(Reason(h.Apply(NewProject("robots"))), "OK");
  const std::string before = h.core().Snapshot().SerializeAsString();
  EXPECT_EQ(Reason(h.Apply(NewProject("robots"))), "ALREADY_EXISTS");
  EXPECT_FALSE(h.Apply(NewBinding("projects/absent", "a", v1::RoleBinding::ROLE_VIEWER))->ok());
  EXPECT_FALSE(h.Apply(Removal("roleBindings/absent"))->ok());
  EXPECT_EQ(Reason(h.Apply(Removal("roleBindings/first-admin"))), "LAST_ADMIN");
  EXPECT_EQ(Reason(h.Apply(Denial(CoreHarness::Id("/svc/credentials")))), "DENIES_CREDENTIALS");
  EXPECT_EQ(Reason(h.Apply(Denial(CoreHarness::Id("/svc/")))), "DENIES_CREDENTIALS");
  EXPECT_EQ(Reason(h.Apply(Denial(CoreHarness::Id("/person/")))), "DENIES_CALLER");
  EXPECT_EQ(h.core().Snapshot().SerializeAsString(), before);
  EXPECT_EQ(h.Chain()->size(), 9u);
}

TEST(PolicyTest, AnotherAdminMayUnbindTheFirst) {
  CoreHarness h;
  // A project's admin is no admin of the trust domain.
  h.Apply(NewBinding("projects/default", "ann", v1::RoleBinding::ROLE_ADMIN));
  EXPECT_EQ(Reason(h.Apply(Removal("roleBindings/first-admin"))), "LAST_ADMIN");
  h.Apply(NewBinding("", "ann", v1::RoleBinding::ROLE_ADMIN));
  EXPECT_EQ(Reason(h.Apply(Removal("roleBindings/first-admin"))), "OK");
}

TEST(RequestIdTest, RepeatsGetTheSameProjectForADay) {
  CoreHarness h;
  ASSERT_EQ(Reason(h.Apply(NewProject("robots", "r1"))), "OK");
  ASSERT_TRUE(h.Reload().ok());
  CreateProject again = NewProject("robots", "r1");
  again.uid = "another";
  const auto answer = h.Apply(again);
  ASSERT_EQ(Reason(answer), "OK");
  EXPECT_EQ(std::get<v1::Project>(**answer).uid(), "uid-robots");
  EXPECT_EQ(Reason(h.Apply(NewProject("robots", "r1", "other body"))), "REQUEST_ID_REUSED");
  // Another caller's id is another id.
  CreateProject other = NewProject("robots", "r1");
  other.request.principal = CoreHarness::Id("/person/1001");
  EXPECT_EQ(Reason(h.Apply(other)), "ALREADY_EXISTS");
  h.Advance(absl::Hours(25));
  h.Apply(Tick{});
  EXPECT_EQ(Reason(h.Apply(NewProject("robots", "r1"))), "ALREADY_EXISTS");
}

TEST(AuditTest, RepeatedRefusalsAreCountedAndRecordedOnce) {
  CoreHarness h;
  const size_t before = h.Chain()->size();
  for (int i = 0; i < 1000; ++i) h.Apply(h.JoinEvent("unknown", "guess", "key"));
  EXPECT_EQ(h.Chain()->size(), before + 1);
  ASSERT_TRUE(h.core().NextDeadline().has_value());
  h.Advance(*h.core().NextDeadline() - h.now().boot);
  h.Apply(Tick{});
  ASSERT_EQ(h.Chain()->size(), before + 2);
  EXPECT_EQ(h.Chain()->back().repeats(), 999);
  EXPECT_FALSE(h.core().NextDeadline().has_value());
}

TEST(AuditTest, KindsOfRefusalsAreBoundedAndTheirClosingFitsTransactions) {
  CoreHarness h;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) {
      h.Apply(Removal(absl::StrCat("roleBindings/b", i)));
    }
  }
  // 256 kinds and the one that the others share.
  EXPECT_EQ(h.Chain()->size(), 1u + AuditChain::kMaxWindows + 1);
  int rounds = 0;
  while (h.core().NextDeadline().has_value() && rounds < 100) {
    h.Apply(Tick{.flush = true});
    EXPECT_LE(h.operations(), 128u);
    ++rounds;
  }
  int64_t counted = 0;
  const auto chain = h.Chain();
  ASSERT_TRUE(chain.has_value());
  for (const auto& record : *chain) {
    if (record.act() != act::kDeleteRoleBinding) continue;
    counted += record.repeats() == 0 ? 1 : record.repeats();
  }
  EXPECT_EQ(counted, 2000);
}

TEST(LoadTest, NamesTheRecordThatCannotBeRead) {
  CoreHarness h;
  h.disk()["/capstan/credentials/v1/project/default"] = "\xff\xff";
  const absl::Status status = h.Reload();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("project/default"), absl::string_view::npos);
}

TEST(LoadTest, NothingIsDueInAnEmptyOrQuietCore) {
  CredentialsCore empty({});
  EXPECT_FALSE(empty.initialised());
  EXPECT_FALSE(empty.NextDeadline().has_value());
  CoreHarness h;
  EXPECT_FALSE(h.core().NextDeadline().has_value());
}

}  // namespace
}  // namespace capstan::credentials
