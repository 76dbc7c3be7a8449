#include "tools/capstan/cli/permissions.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "libs/auth/roles.h"
#include "libs/status/error.h"
#include "proto/capstan/clustermanager/v1/cluster.pb.h"
#include "proto/capstan/credentials/v1/audit_service.pb.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"
#include "proto/capstan/type/v1/access.pb.h"

namespace capstan::cli {
namespace {

TEST(PermissionsTest, AVerbAndAResourceMakeOne) {
  EXPECT_EQ(PermissionOf("create", "jobs").value(), "jobs.create");
  EXPECT_EQ(PermissionOf("Cancel", "job").value(), "jobs.cancel");
  EXPECT_EQ(PermissionOf("update", "jobs").value(), "jobs.update");
  EXPECT_EQ(PermissionOf("get", "jobs/digits").value(), "jobs.get");
  EXPECT_EQ(PermissionOf("create", "role-bindings").value(), "roleBindings.create");
  EXPECT_EQ(PermissionOf("deny", "identities").value(), "identities.deny");
}

TEST(PermissionsTest, WhatThereIsNotSaysWhatThereIs) {
  const auto verb = PermissionOf("frobnicate", "jobs");
  EXPECT_EQ(status::Reason(verb.status()), "NO_SUCH_PERMISSION");
  EXPECT_TRUE(
      absl::StrContains(std::string(verb.status().message()),
                        "found 'frobnicate', expected one of cancel, create, exec, get, list"))
      << verb.status();
  const auto resource = PermissionOf("get", "unicorns");
  EXPECT_TRUE(absl::StrContains(std::string(resource.status().message()), "expected one of audit"))
      << resource.status();
}

// A permission that the services ask in a project must be tested in one, and no other.
TEST(PermissionsTest, ProjectsAreWhereTheServicesLookForThem) {
  std::set<std::string> seen;
  for (const auto* message :
       {clustermanager::v1::Cluster::descriptor(), credentials::v1::AuditHead::descriptor(),
        credentials::v1::Svid::descriptor(), credentials::v1::Project::descriptor(),
        dataloader::v1::Bundle::descriptor(), dataloader::v1::Dataset::descriptor(),
        scheduler::v1::CapacityOrder::descriptor(), scheduler::v1::CreateJobRequest::descriptor(),
        scheduler::v1::Node::descriptor(), scheduler::v1::Queue::descriptor(),
        scheduler::v1::SimulateChangesRequest::descriptor(), telemetry::v1::Record::descriptor(),
        telemetry::v1::Subscription::descriptor(),
        telemetry::v1::OpenTaskSessionRequest::descriptor()}) {
    for (int i = 0; i < message->file()->service_count(); ++i) {
      const auto* service = message->file()->service(i);
      for (int k = 0; k < service->method_count(); ++k) {
        const auto& rule = service->method(k)->options().GetExtension(type::v1::access);
        if (rule.permission().empty()) continue;
        seen.insert(rule.permission());
        EXPECT_EQ(IsAskedInProject(rule.permission()), !rule.resource_field().empty())
            << service->method(k)->full_name();
      }
    }
  }
  EXPECT_EQ(seen.size(), auth::AllPermissions().size());
}

}  // namespace
}  // namespace capstan::cli
