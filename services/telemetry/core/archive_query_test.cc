#include "services/telemetry/core/archive_query.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::telemetry {
namespace {

using scheduler::v1::Job;

TEST(ArchiveQueryTest, TermsAreReadInAnyOrder) {
  const auto filter = ParseArchiveFilter(
      "labels.team=a=b AND state=FAILED AND end_time<2026-02-01T00:00:00Z AND queue=queues/q AND "
      "end_time>=2026-01-01T00:00:00+01:00 AND job=train AND uid=u-1");
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_EQ(filter->state, Job::STATE_FAILED);
  EXPECT_EQ(filter->labels.at("team"), "a=b");
  EXPECT_EQ(filter->job, "train");
  EXPECT_EQ(filter->uid, "u-1");
  EXPECT_EQ(filter->queue, "queues/q");
  EXPECT_EQ(filter->end_from, absl::FromUnixSeconds(1767222000));
  EXPECT_EQ(filter->end_before, absl::FromUnixSeconds(1769904000));
  EXPECT_TRUE(ParseArchiveFilter("").ok());
}

TEST(ArchiveQueryTest, WhatMakesNoSenseIsNamed) {
  for (const char* term : {"state=DONE", "state=UNSPECIFIED", "state", "colour=red", "queue=q",
                           "end_time>yesterday", "end_time>=now", "labels.=x", "uid=", "=", " "}) {
    const auto filter = ParseArchiveFilter(term);
    ASSERT_FALSE(filter.ok()) << term;
    const auto violations = status::GetFieldViolations(filter.status());
    ASSERT_EQ(violations.size(), 1u);
    EXPECT_EQ(violations[0].field, "filter");
    EXPECT_NE(violations[0].description.find(term), std::string::npos) << term;
  }
}

TEST(ArchiveQueryTest, OnlyWholeEndedJobsAreTaken) {
  v1::ArchiveJobsRequest request;
  EXPECT_FALSE(CheckArchive(request).ok()) << "empty";
  Job& job = *request.add_jobs();
  job.set_name("projects/p/jobs/j");
  job.set_uid("u");
  job.set_state(Job::STATE_CANCELLED);
  job.mutable_create_time()->set_seconds(1);
  job.mutable_end_time()->set_seconds(2);
  EXPECT_TRUE(CheckArchive(request).ok()) << CheckArchive(request);
  for (const auto& [field, spoil] : std::map<std::string, void (*)(Job*)>{
           {"jobs[0].name", [](Job* j) { j->set_name("jobs/j"); }},
           {"jobs[0].uid", [](Job* j) { j->clear_uid(); }},
           {"jobs[0].state", [](Job* j) { j->set_state(Job::STATE_RUNNING); }},
           {"jobs[0].end_time", [](Job* j) { j->clear_end_time(); }}}) {
    v1::ArchiveJobsRequest spoiled = request;
    spoil(spoiled.mutable_jobs(0));
    const auto violations = status::GetFieldViolations(CheckArchive(spoiled));
    ASSERT_EQ(violations.size(), 1u) << field;
    EXPECT_EQ(violations[0].field, field);
  }
  while (request.jobs_size() <= kMaxArchivedJobs) *request.add_jobs() = job;
  EXPECT_FALSE(CheckArchive(request).ok()) << "too many";
}

}  // namespace
}  // namespace capstan::telemetry
