#include "services/scheduler/recorder/redaction.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/records.pb.h"
#include "services/scheduler/recorder/recording.pb.h"

namespace capstan::scheduler {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

namespace rec = ::capstan::scheduler::records::v1;

capstan::scheduler::v1::JobSpec SecretSpec() {
  capstan::scheduler::v1::JobSpec spec;
  auto& group = *spec.add_task_groups();
  group.set_name("worker");
  group.add_argv("--token=hunter2");
  (*group.mutable_env())["PASSWORD"] = "hunter22";
  return spec;
}

// Messages reachable from `message` that have a field of this name.
void Owners(const Descriptor* message, const std::string& field, std::set<const Descriptor*>* seen,
            std::set<std::string>* owners) {
  if (!seen->insert(message).second) return;
  for (int f = 0; f < message->field_count(); ++f) {
    if (message->field(f)->name() == field) owners->insert(message->full_name());
    if (message->field(f)->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Owners(message->field(f)->message_type(), field, seen, owners);
    }
  }
}

// A message that comes to hold a program's text must be redacted too.
TEST(RedactionTest, OnlyTaskGroupsAndLaunchesHoldTheTextOfPrograms) {
  for (const char* field : {"argv", "env"}) {
    std::set<const Descriptor*> seen;
    std::set<std::string> owners;
    for (const Descriptor* root :
         {recordings::v1::Block::descriptor(), recordings::v1::Decision::descriptor(),
          rec::JobSpecRecord::descriptor()}) {
      Owners(root, field, &seen, &owners);
    }
    EXPECT_EQ(owners, (std::set<std::string>{"capstan.scheduler.v1.TaskGroup",
                                             "capstan.type.v1.TaskLaunch"}))
        << field;
    for (const Descriptor* root :
         {rec::JobStateRecord::descriptor(), rec::GangHeadRecord::descriptor(),
          rec::PlacementChunkRecord::descriptor(), rec::TaskChunkRecord::descriptor(),
          rec::NodeRecord::descriptor(), rec::ClusterRecord::descriptor(),
          rec::QueueRecord::descriptor(), rec::QueueUsageRecord::descriptor(),
          rec::CapacityOrderRecord::descriptor(), rec::RequestRecord::descriptor(),
          rec::PinReleaseRecord::descriptor()}) {
      std::set<const Descriptor*> seen_below;
      std::set<std::string> below;
      Owners(root, field, &seen_below, &below);
      EXPECT_TRUE(below.empty()) << root->full_name() << " now has " << field;
    }
  }
}

TEST(RedactionTest, TextKeepsItsLengthAndNamesStay) {
  auto spec = SecretSpec();
  const size_t size = spec.ByteSizeLong();
  Redaction::Redact(&spec);
  EXPECT_EQ(spec.ByteSizeLong(), size);
  EXPECT_EQ(spec.task_groups(0).name(), "worker");
  EXPECT_EQ(spec.task_groups(0).argv(0), "xxxxxxxxxxxxxxx");
  EXPECT_EQ(spec.task_groups(0).env().at("PASSWORD"), "xxxxxxxx");
}

TEST(RedactionTest, StoredRecordsAndMessagesAreRedacted) {
  const Redaction redaction = Redaction::Fresh();
  rec::JobSpecRecord record;
  *record.mutable_spec() = SecretSpec();
  const std::string redacted = redaction.Record(JobSpecKey("u"), record.SerializeAsString());
  EXPECT_EQ(redacted.size(), record.ByteSizeLong());
  EXPECT_FALSE(absl::StrContains(redacted, "hunter"));
  // Twice is as good as once, which is what a replay does.
  EXPECT_EQ(Redaction::OfRedacted().Record(JobSpecKey("u"), redacted), redacted);

  capstan::type::v1::SessionDown message;
  auto& launch = *message.mutable_desired()->add_tasks()->mutable_launch();
  launch.add_argv("hunter2");
  (*launch.mutable_env())["P"] = "hunter2";
  Redaction::Redact(&message);
  EXPECT_FALSE(absl::StrContains(message.SerializeAsString(), "hunter"));
}

TEST(RedactionTest, HashesCompareAsBeforeAndSayNothing) {
  const Redaction one = Redaction::Fresh();
  const Redaction other = Redaction::Fresh();
  const std::string hash(32, 'h');
  EXPECT_EQ(one.Hash(hash), one.Hash(hash));
  EXPECT_NE(one.Hash(hash), one.Hash(std::string(32, 'i')));
  EXPECT_NE(one.Hash(hash), other.Hash(hash));
  EXPECT_EQ(one.Hash(hash).size(), hash.size());
  EXPECT_EQ(one.Hash(""), "");
  EXPECT_EQ(Redaction::OfRedacted().Hash(hash), hash);
  rec::RequestRecord record;
  record.set_body_hash(hash);
  const std::string stored = one.Record(RequestKey("jobs", "p", "r"), record.SerializeAsString());
  ASSERT_TRUE(record.ParseFromString(stored));
  EXPECT_EQ(record.body_hash(), one.Hash(hash));
}

TEST(RedactionTest, WhatCannotBeReadIsLeftOut) {
  EXPECT_EQ(Redaction::Fresh().Record(JobSpecKey("u"), "\xff hunter2"), "");
}

}  // namespace
}  // namespace capstan::scheduler
