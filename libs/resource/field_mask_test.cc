#include "libs/resource/field_mask.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::resource {
namespace {

using google::protobuf::FieldMask;
using scheduler::v1::Job;

FieldMask Mask(std::initializer_list<const char*> paths) {
  FieldMask mask;
  for (const char* path : paths) mask.add_paths(path);
  return mask;
}

Job Source() {
  Job job;
  job.mutable_spec()->set_priority(7);
  job.mutable_spec()->mutable_stop_grace()->set_seconds(3);
  (*job.mutable_spec()->mutable_labels())["k"] = "new";
  job.set_state(Job::STATE_RUNNING);
  return job;
}

Job Target() {
  Job job;
  job.mutable_spec()->set_queue("queues/old");
  job.mutable_spec()->set_priority(1);
  (*job.mutable_spec()->mutable_labels())["old"] = "old";
  job.set_state(Job::STATE_QUEUED);
  return job;
}

const std::set<std::string>& OutputOnly() {
  static const auto* const paths = new std::set<std::string>{"state"};
  return *paths;
}

TEST(FieldMaskTest, NamedPathsAreReplacedOthersKept) {
  Job target = Target();
  ASSERT_TRUE(
      ApplyFieldMask(Mask({"spec.priority", "spec.labels"}), Source(), OutputOnly(), &target).ok());
  EXPECT_EQ(target.spec().priority(), 7);
  EXPECT_EQ(target.spec().queue(), "queues/old");
  EXPECT_EQ(target.spec().labels().size(), 1u);
  EXPECT_EQ(target.spec().labels().at("k"), "new");
  EXPECT_FALSE(target.spec().has_stop_grace());
}

TEST(FieldMaskTest, APathUnsetInTheSourceIsCleared) {
  Job target = Target();
  ASSERT_TRUE(ApplyFieldMask(Mask({"spec.queue"}), Source(), OutputOnly(), &target).ok());
  EXPECT_EQ(target.spec().queue(), "");
}

TEST(FieldMaskTest, EmptyMaskTakesWhatIsSetAndStarTakesAll) {
  Job target = Target();
  target.set_message("kept");
  ASSERT_TRUE(ApplyFieldMask({}, Source(), OutputOnly(), &target).ok());
  EXPECT_EQ(target.spec().priority(), 7);
  EXPECT_EQ(target.message(), "kept");
  EXPECT_EQ(target.state(), Job::STATE_QUEUED);
  ASSERT_TRUE(ApplyFieldMask(Mask({"*"}), Source(), OutputOnly(), &target).ok());
  EXPECT_EQ(target.message(), "");
  EXPECT_EQ(target.state(), Job::STATE_QUEUED);
}

TEST(FieldMaskTest, OutputOnlyPathsArePassedOver) {
  Job target = Target();
  ASSERT_TRUE(ApplyFieldMask(Mask({"state"}), Source(), OutputOnly(), &target).ok());
  EXPECT_EQ(target.state(), Job::STATE_QUEUED);
}

TEST(FieldMaskTest, BadPathsChangeNothing) {
  for (const char* path : {"nope", "spec.nope", "spec.task_groups.name", "spec.labels.k",
                           "spec.task_groups[0]", "", ".", "spec."}) {
    Job target = Target();
    const absl::Status status =
        ApplyFieldMask(Mask({"spec.priority", path}), Source(), OutputOnly(), &target);
    ASSERT_EQ(status::GetFieldViolations(status).size(), 1u) << path;
    EXPECT_EQ(status::GetFieldViolations(status)[0].field, "update_mask");
    EXPECT_EQ(target.SerializeAsString(), Target().SerializeAsString()) << path;
  }
}

}  // namespace
}  // namespace capstan::resource
