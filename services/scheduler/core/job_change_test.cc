#include "services/scheduler/core/job_change.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::UpdateJobRequest;

UpdateJobRequest Request(const std::string& text) {
  UpdateJobRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

std::vector<status::FieldViolation> Wrong(const UpdateJobRequest& request) {
  status::FieldErrors errors;
  ValidateUpdateJob(request, &errors);
  return status::GetFieldViolations(errors.ToStatus());
}

TEST(JobChangeTest, TakesWhatCanBeChanged) {
  for (const char* good : {
           "update_mask { paths: 'hold' }",
           "job { spec { priority: -1000 } } update_mask { paths: 'spec.priority' }",
           "job { spec { time_limit { seconds: 1 } } } update_mask { paths: 'spec.time_limit' }",
           "update_mask { paths: 'spec.time_limit' paths: 'spec.priority' paths: 'hold' }",
           // What the mask does not name is not looked at.
           "job { spec { priority: 5000 queue: '?' } } update_mask { paths: 'hold' }",
       }) {
    EXPECT_TRUE(Wrong(Request(good)).empty()) << good;
  }
}

TEST(JobChangeTest, RefusesTheRestAndSaysWhatIsExpected) {
  struct Case {
    const char* request;
    const char* field;
    const char* words;
  };
  for (const Case& one : std::vector<Case>{
           {"", "update_mask", "is empty; expected some of hold, spec.priority, spec.time_limit"},
           {"update_mask { paths: '*' }", "update_mask", "names `*`"},
           {"update_mask { paths: 'spec' }", "update_mask", "names `spec`, which cannot"},
           {"update_mask { paths: 'spec.queue' }", "update_mask", "`spec.queue`"},
           {"update_mask { paths: 'hold' paths: 'state' }", "update_mask", "`state`"},
           {"update_mask { paths: 'spec.absent' }", "update_mask", "`spec.absent`"},
           {"update_mask { paths: 'spec.time_limit.seconds' }", "update_mask",
            "expected some of hold"},
           {"job { spec { priority: 1001 } } update_mask { paths: 'spec.priority' }",
            "job.spec.priority", "is 1001; expected -1000 to 1000"},
           {"job { spec { time_limit { } } } update_mask { paths: 'spec.time_limit' }",
            "job.spec.time_limit", "is 0; expected 1s"},
           {"job { spec { time_limit { seconds: -5 } } } update_mask { paths: 'spec.time_limit' }",
            "job.spec.time_limit", "is -5s"},
       }) {
    const auto wrong = Wrong(Request(one.request));
    ASSERT_EQ(wrong.size(), 1u) << one.request;
    EXPECT_EQ(wrong[0].field, one.field) << one.request;
    EXPECT_TRUE(absl::StrContains(wrong[0].description, one.words)) << wrong[0].description;
  }
}

TEST(JobChangeTest, BoundsWhatItSaysOfAMask) {
  UpdateJobRequest request;
  request.mutable_update_mask()->add_paths(std::string(100'000, 'x'));
  ASSERT_EQ(Wrong(request).size(), 1u);
  EXPECT_LT(Wrong(request)[0].description.size(), 200u);
  for (int i = 0; i < 1000; ++i) request.mutable_update_mask()->add_paths(absl::StrCat("x", i));
  EXPECT_EQ(Wrong(request).size(), 1u);
}

TEST(JobChangeTest, WhatIsNotNamedStays) {
  JobEntry job;
  job.spec.mutable_spec()->set_priority(4);
  *job.spec.mutable_spec()->mutable_time_limit() = ToProto(absl::Hours(1));
  const auto hold = JobChangeOf(Request("job { hold: true } update_mask { paths: 'hold' }"));
  EXPECT_FALSE(ChangesSpec(hold, job));
  EXPECT_TRUE(ChangesHold(hold, job));
  EXPECT_EQ(ChangeInWords(hold, job), "it is held");
  ApplyChange(hold, &job);
  EXPECT_TRUE(job.state.hold());
  EXPECT_FALSE(ChangesHold(hold, job));
  EXPECT_EQ(ChangeInWords(hold, job), "");
  EXPECT_EQ(job.spec.spec().priority(), 4);
  EXPECT_EQ(ToDuration(job.spec.spec().time_limit()), absl::Hours(1));
}

TEST(JobChangeTest, WhatIsNamedAndNotSetIsCleared) {
  JobEntry job;
  job.spec.mutable_spec()->set_priority(4);
  *job.spec.mutable_spec()->mutable_time_limit() = ToProto(absl::Hours(1));
  job.state.set_hold(true);
  const auto change = JobChangeOf(
      Request("update_mask { paths: 'spec.time_limit' paths: 'spec.priority' paths: 'hold' }"));
  EXPECT_TRUE(ChangesSpec(change, job));
  EXPECT_EQ(ChangeInWords(change, job),
            "priority is 0, and was 4; time_limit is none, and was 1h; it is released");
  ApplyChange(change, &job);
  EXPECT_EQ(job.spec.spec().priority(), 0);
  EXPECT_FALSE(job.spec.spec().has_time_limit());
  EXPECT_FALSE(job.state.hold());
  EXPECT_FALSE(ChangesSpec(change, job));
}

}  // namespace
}  // namespace capstan::scheduler
