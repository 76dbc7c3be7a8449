#include "tools/capstan/cli/proto_text.h"

#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "libs/config/proto_reader.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::cli {
namespace {

using google::protobuf::util::MessageDifferencer;
using scheduler::v1::Job;

Job Sample() {
  Job job;
  job.set_name("projects/p/jobs/j");
  job.set_etag("\"r4\"");
  job.set_state(Job::STATE_RUNNING);
  job.set_message("two\nlines \"quoted\" \\ \x01");
  job.set_generation(int64_t{1} << 60);
  job.mutable_create_time()->set_seconds(1'700'000'000);
  job.mutable_create_time()->set_nanos(120'000'000);
  auto* spec = job.mutable_spec();
  spec->mutable_stop_grace()->set_seconds(1);
  spec->mutable_stop_grace()->set_nanos(500'000'000);
  auto* group = spec->add_task_groups();
  group->set_name("workers");
  group->set_replicas(4);
  group->add_argv("/bin/echo");
  group->add_argv("yes");
  group->add_argv("");
  (*group->mutable_env())["B"] = "2";
  (*group->mutable_env())["A"] = "- x: 1";
  group->mutable_resources()->set_cpu_millis(250);
  job.mutable_data_progress()->set_bytes_per_second(1.5);
  return job;
}

TEST(ProtoTextTest, JsonIsWhatProtobufReads) {
  Job read;
  const auto status = google::protobuf::util::JsonStringToMessage(ToJson(Sample()), &read);
  ASSERT_TRUE(status.ok()) << status.ToString() << ToJson(Sample());
  EXPECT_TRUE(MessageDifferencer::Equals(read, Sample())) << ToJson(Sample());
}

TEST(ProtoTextTest, YamlIsWhatOurOwnFilesAre) {
  Job read;
  const absl::Status status = config::ReadProto(ToYaml(Sample()), "y", &read);
  ASSERT_TRUE(status.ok()) << status << ToYaml(Sample());
  EXPECT_TRUE(MessageDifferencer::Equals(read, Sample())) << ToYaml(Sample());
}

TEST(ProtoTextTest, TheSameMessageGivesTheSameText) {
  EXPECT_EQ(ToJson(Sample()), ToJson(Sample()));
  EXPECT_LT(ToYaml(Sample()).find("A: "), ToYaml(Sample()).find("B: "));
}

TEST(ProtoTextTest, Lists) {
  Job job;
  job.set_name("a");
  EXPECT_EQ(ToJson("jobs", {&job}),
            "{\n  \"jobs\": [\n    {\n      \"name\": \"a\"\n    }\n  ]\n}\n");
  EXPECT_EQ(ToYaml("jobs", {&job, &job}), "jobs:\n  - name: a\n  - name: a\n");
  EXPECT_EQ(ToYaml("jobs", {}), "jobs: []\n");
  EXPECT_EQ(ToJson("jobs", {}), "{\n  \"jobs\": []\n}\n");
}

}  // namespace
}  // namespace capstan::cli
