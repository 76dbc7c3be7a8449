// Walks every service of Capstan. Linking a service's descriptor in is what puts it under the test.

#include "libs/auth/access_rules.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "libs/auth/roles.h"
#include "proto/capstan/clustermanager/v1/cluster.pb.h"
#include "proto/capstan/credentials/v1/access_service.pb.h"
#include "proto/capstan/credentials/v1/audit_service.pb.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "proto/capstan/executor/v1/agent_session.pb.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "proto/capstan/scheduler/v1/executor_session.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.pb.h"
#include "proto/capstan/telemetry/v1/archive.pb.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::auth {
namespace {

using ::google::protobuf::FileDescriptor;
using ::google::protobuf::ServiceDescriptor;
using type::v1::AccessRule;

std::vector<const FileDescriptor*> Files() {
  return {
      clustermanager::v1::Cluster::descriptor()->file(),
      credentials::v1::CallerAccess::descriptor()->file(),
      credentials::v1::ListAuditRecordsRequest::descriptor()->file(),
      credentials::v1::Svid::descriptor()->file(),
      credentials::v1::Project::descriptor()->file(),
      dataloader::v1::Bundle::descriptor()->file(),
      dataloader::v1::Dataset::descriptor()->file(),
      google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
          "proto/capstan/executor/v1/agent_session.proto"),
      google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
          "proto/capstan/scheduler/v1/executor_session.proto"),
      scheduler::v1::CapacityOrder::descriptor()->file(),
      scheduler::v1::CreateJobRequest::descriptor()->file(),
      scheduler::v1::Node::descriptor()->file(),
      scheduler::v1::Queue::descriptor()->file(),
      scheduler::v1::SimulateChangesRequest::descriptor()->file(),
      telemetry::v1::ArchivedJob::descriptor()->file(),
      telemetry::v1::ReportScrapeTargetRequest::descriptor()->file(),
      telemetry::v1::Record::descriptor()->file(),
      telemetry::v1::Subscription::descriptor()->file(),
      telemetry::v1::TaskSession::descriptor()->file(),
  };
}

std::vector<const ServiceDescriptor*> Services() {
  std::vector<const ServiceDescriptor*> services;
  for (const FileDescriptor* file : Files()) {
    EXPECT_NE(file, nullptr);
    if (file == nullptr) continue;
    for (int i = 0; i < file->service_count(); ++i) services.push_back(file->service(i));
  }
  return services;
}

TEST(AccessRulesTest, EveryMethodOfEveryServiceHasASoundRule) {
  ASSERT_GE(Services().size(), 20u);
  for (const ServiceDescriptor* service : Services()) {
    EXPECT_EQ(CheckServiceRules(service->full_name()), absl::OkStatus());
  }
}

TEST(AccessRulesTest, EveryPermissionHasARoleAndEveryRoleEntryAMethod) {
  std::set<std::string> asked;
  for (const ServiceDescriptor* service : Services()) {
    for (int i = 0; i < service->method_count(); ++i) {
      const AccessRule& rule = service->method(i)->options().GetExtension(type::v1::access);
      if (!rule.permission().empty()) asked.insert(rule.permission());
    }
  }
  const std::vector<std::string> known = AllPermissions();
  EXPECT_TRUE(std::is_sorted(known.begin(), known.end()));
  EXPECT_THAT(asked, ::testing::ElementsAreArray(known));
  for (const std::string& permission : asked) {
    EXPECT_TRUE(RoleGives(credentials::v1::RoleBinding::ROLE_ADMIN, permission)) << permission;
  }
}

TEST(AccessRulesTest, WhoOnlyLooksDoesNotEnterTasks) {
  using credentials::v1::RoleBinding;
  EXPECT_TRUE(RoleGives(RoleBinding::ROLE_RESEARCHER, "jobs.exec"));
  EXPECT_FALSE(RoleGives(RoleBinding::ROLE_VIEWER, "jobs.exec"));
  EXPECT_FALSE(RoleGives(RoleBinding::ROLE_OPERATOR, "jobs.exec"));
  EXPECT_EQ(ScopeOf("jobs.exec"), PermissionScope::kProject);
}

TEST(AccessRulesTest, WhoMayCancelJobsMayChangeThem) {
  using credentials::v1::RoleBinding;
  for (int role = RoleBinding::ROLE_ADMIN; role <= RoleBinding::ROLE_VIEWER; ++role) {
    const auto one = static_cast<RoleBinding::Role>(role);
    EXPECT_EQ(RoleGives(one, "jobs.update"), RoleGives(one, "jobs.cancel"))
        << RoleBinding::Role_Name(one);
  }
  EXPECT_TRUE(RoleGives(RoleBinding::ROLE_RESEARCHER, "jobs.update"));
  EXPECT_EQ(ScopeOf("jobs.update"), PermissionScope::kProject);
}

TEST(AccessRulesTest, WhoSubmitsOrRunsNodesMaySimulate) {
  using credentials::v1::RoleBinding;
  EXPECT_TRUE(RoleGives(RoleBinding::ROLE_RESEARCHER, "jobs.simulate"));
  EXPECT_TRUE(RoleGives(RoleBinding::ROLE_OPERATOR, "jobs.simulate"));
  EXPECT_FALSE(RoleGives(RoleBinding::ROLE_VIEWER, "jobs.simulate"));
  EXPECT_EQ(ScopeOf("jobs.simulate"), PermissionScope::kProject);
}

TEST(AccessRulesTest, WhoOnlyLooksDoesNotMoveCursors) {
  using credentials::v1::RoleBinding;
  for (const char* permission : {"subscriptions.create", "subscriptions.read"}) {
    EXPECT_TRUE(RoleGives(RoleBinding::ROLE_RESEARCHER, permission));
    EXPECT_FALSE(RoleGives(RoleBinding::ROLE_VIEWER, permission));
    EXPECT_FALSE(RoleGives(RoleBinding::ROLE_OPERATOR, permission));
    EXPECT_EQ(ScopeOf(permission), PermissionScope::kProject);
  }
  AccessRules rules;
  for (const char* act : {"CreateSubscription", "DeleteSubscription", "SeekSubscription"}) {
    const AccessRule* rule =
        rules.Find(absl::StrCat("/capstan.telemetry.v1.SubscriptionService/", act));
    ASSERT_NE(rule, nullptr) << act;
    EXPECT_TRUE(rule->audited()) << act;
  }
}

TEST(AccessRulesTest, AnonymousCallersReachNothingButIdentity) {
  std::set<std::string> anonymous;
  for (const ServiceDescriptor* service : Services()) {
    for (int i = 0; i < service->method_count(); ++i) {
      const AccessRule& rule = service->method(i)->options().GetExtension(type::v1::access);
      for (const int caller : rule.callers()) {
        if (caller == AccessRule::CALLER_ANONYMOUS) {
          anonymous.insert(service->method(i)->full_name());
        }
      }
    }
  }
  EXPECT_THAT(anonymous,
              ::testing::ElementsAre("capstan.credentials.v1.JoinService.Join",
                                     "capstan.credentials.v1.PersonService.IssuePersonSvid"));
}

TEST(AccessRulesTest, FindsRulesByFullMethod) {
  AccessRules rules;
  const AccessRule* rule = rules.Find("/capstan.scheduler.v1.JobService/CreateJob");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->permission(), "jobs.create");
  EXPECT_EQ(rules.Find("/capstan.scheduler.v1.JobService/CreateJob"), rule);
  for (const char* absent : {"", "/", "CreateJob", "/capstan.scheduler.v1.JobService/Nothing",
                             "/capstan.scheduler.v1.JobService/CreateJob/x"}) {
    EXPECT_EQ(rules.Find(absent), nullptr) << absent;
  }
  EXPECT_FALSE(CheckServiceRules("capstan.scheduler.v1.NoService").ok());
}

TEST(AccessRulesTest, ReadsResourcesByPath) {
  scheduler::v1::CreateJobRequest request;
  request.set_parent("projects/p");
  EXPECT_EQ(ResourceOf(request, "parent"), "projects/p");
  EXPECT_EQ(ResourceOf(request, "job.name"), "");
  request.mutable_job()->set_name("projects/p/jobs/j");
  EXPECT_EQ(ResourceOf(request, "job.name"), "projects/p/jobs/j");
  EXPECT_EQ(ResourceOf(request, "nothing"), "");
  EXPECT_EQ(ResourceOf(request, "parent.name"), "");
}

TEST(AccessRulesTest, ProjectsOfNames) {
  EXPECT_EQ(ProjectOf("projects/p/jobs/j"), "p");
  EXPECT_EQ(ProjectOf("projects/p"), "p");
  EXPECT_EQ(ProjectOf("projects/-"), "-");
  EXPECT_EQ(ProjectOf("projects/"), "");
  EXPECT_EQ(ProjectOf("queues/q"), "");
  EXPECT_EQ(ProjectOf("xprojects/p"), "");
  EXPECT_EQ(ProjectOf(""), "");
}

}  // namespace
}  // namespace capstan::auth
