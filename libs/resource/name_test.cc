#include "libs/resource/name.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"

namespace capstan::resource {
namespace {

TEST(IdTest, FollowsTheRule) {
  for (const char* id : {"a", "a1", "digits", "a-b", "x9"}) EXPECT_TRUE(IsValidId(id)) << id;
  EXPECT_TRUE(IsValidId("a" + std::string(62, '0')));
  for (const char* id : {"", "1a", "-a", "a-", "A", "a_b", "a.b", "a/b", "ä"}) {
    EXPECT_FALSE(IsValidId(id)) << id;
  }
  EXPECT_FALSE(IsValidId("a" + std::string(63, '0')));
}

TEST(IdTest, RequestIdIsEmptyOrUuid4) {
  EXPECT_TRUE(ValidateRequestId("").ok());
  EXPECT_TRUE(ValidateRequestId("f47ac10b-58cc-4372-a567-0e02b2c3d479").ok());
  for (const char* id :
       {"f47ac10b-58cc-1372-a567-0e02b2c3d479", "F47AC10B-58CC-4372-A567-0E02B2C3D479",
        "f47ac10b-58cc-4372-c567-0e02b2c3d479", "x", "f47ac10b58cc4372a5670e02b2c3d479"}) {
    const absl::Status status = ValidateRequestId(id);
    ASSERT_EQ(status::GetFieldViolations(status).size(), 1u) << id;
    EXPECT_EQ(status::GetFieldViolations(status)[0].field, "request_id");
  }
}

TEST(NameTest, ParsesAndFormatsEachKind) {
  EXPECT_EQ(JobName::Parse("projects/p/jobs/j-1").value(), (JobName{"p", "j-1"}));
  EXPECT_EQ((JobName{"p", "j"}).ToString(), "projects/p/jobs/j");
  EXPECT_EQ((NodeName{"local", "n0"}).ToString(), "clusters/local/nodes/n0");
  EXPECT_EQ((MaintenanceWindowName{"local", "w"}).ToString(),
            "clusters/local/maintenanceWindows/w");
  EXPECT_EQ((OutputName{"p", "j"}).ToString(), "projects/p/jobs/j/output");
  for (const char* name : {"projects/p", "queues/q", "sites/s", "clusters/c"}) {
    EXPECT_TRUE(ProjectName::Parse(name).ok() || QueueName::Parse(name).ok() ||
                SiteName::Parse(name).ok() || ClusterName::Parse(name).ok());
  }
  EXPECT_EQ(OutputName::Parse("projects/p/jobs/j/output")->ToString(), "projects/p/jobs/j/output");
  EXPECT_EQ(JobStreamName::Parse("projects/p/jobs/j/streams/log")->stream, "log");
  EXPECT_EQ(DatasetName::Parse("projects/p/datasets/d")->ToString(), "projects/p/datasets/d");
  EXPECT_EQ(DatasetVersionName::Parse("projects/p/datasets/d/versions/00ff")->version, "00ff");
  EXPECT_EQ(DataLoadName::Parse("projects/p/dataLoads/l")->ToString(), "projects/p/dataLoads/l");
  EXPECT_EQ(BundleName::Parse("projects/p/bundles/" + std::string(64, '0'))->project, "p");
  EXPECT_EQ(ServiceAccountName::Parse("projects/p/serviceAccounts/a")->account, "a");
  EXPECT_EQ(NodeName::Parse("clusters/c/nodes/n")->node, "n");
  EXPECT_EQ(MaintenanceWindowName::Parse("clusters/c/maintenanceWindows/w")->window, "w");
}

TEST(NameTest, RoleBindingsLieInAProjectOrTheDomain) {
  EXPECT_EQ(RoleBindingName::Parse("roleBindings/b").value(), (RoleBindingName{"", "b"}));
  EXPECT_EQ(RoleBindingName::Parse("projects/p/roleBindings/b").value(),
            (RoleBindingName{"p", "b"}));
  EXPECT_EQ((RoleBindingName{"", "b"}).ToString(), "roleBindings/b");
  EXPECT_EQ((RoleBindingName{"p", "b"}).ToString(), "projects/p/roleBindings/b");
}

TEST(NameTest, RefusesEverythingElse) {
  for (const char* name : {"", "projects", "projects/", "projects/p/jobs", "projects/p/jobs/",
                           "projects/p/jobs/J", "projects/p/jobs/j/", "/projects/p/jobs/j",
                           "project/p/jobs/j", "projects/../jobs/j", "projects/-/jobs/j"}) {
    const auto parsed = JobName::Parse(name);
    EXPECT_EQ(status::Reason(parsed.status()), "INVALID_NAME") << name;
  }
  EXPECT_FALSE(DatasetVersionName::Parse("projects/p/datasets/d/versions/XY").ok());
  EXPECT_FALSE(BundleName::Parse("projects/p/bundles/" + std::string(65, '0')).ok());
  EXPECT_FALSE(JobName::Parse("projects/p/jobs/" + std::string(10000, 'a')).ok());
}

}  // namespace
}  // namespace capstan::resource
