#include "libs/session/placement.h"

#include "absl/time/civil_time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"

namespace capstan::session {
namespace {

using type::v1::DesiredTask;
using type::v1::Placement;

const absl::Time kThen = absl::FromCivil(absl::CivilSecond(2026, 1, 1), absl::UTCTimeZone());

DesiredTask Granted(absl::Time signed_at) {
  Placement placement;
  *placement.mutable_sign_time() = ToProto(signed_at);
  DesiredTask task;
  task.mutable_grant()->set_placement(placement.SerializeAsString());
  return task;
}

absl::Time AfterKeeping(const DesiredTask& known, DesiredTask newer) {
  KeepGrant(known, &newer);
  Placement placement;
  EXPECT_TRUE(placement.ParseFromString(newer.grant().placement()));
  return ToTime(placement.sign_time());
}

TEST(PlacementTest, SaysWhatTheOrderSays) {
  DesiredTask task;
  task.mutable_key()->set_job_uid("u");
  task.mutable_key()->set_generation(2);
  task.mutable_key()->set_group("worker");
  task.mutable_key()->set_index(7);
  task.set_node("n1");
  task.mutable_launch()->set_job("projects/p/jobs/j");
  task.mutable_launch()->set_service_account("projects/p/serviceAccounts/s");
  task.mutable_launch()->set_bundle("sha256:ab");
  task.mutable_launch()->set_output("projects/p/jobs/j/output");
  auto* mount = task.mutable_launch()->add_datasets();
  mount->set_dataset("projects/p/datasets/d");
  mount->set_version("v1");
  task.mutable_launch()->add_datasets()->set_version("projects/q/datasets/e/versions/v2");
  const Placement placement = PlacementOf("local", task);
  EXPECT_EQ(placement.cluster(), "local");
  EXPECT_EQ(placement.node(), "n1");
  EXPECT_EQ(placement.job(), "projects/p/jobs/j");
  EXPECT_EQ(placement.job_uid(), "u");
  EXPECT_EQ(placement.generation(), 2);
  EXPECT_EQ(placement.group(), "worker");
  EXPECT_EQ(placement.index(), 7);
  EXPECT_EQ(placement.service_account(), "projects/p/serviceAccounts/s");
  EXPECT_EQ(placement.bundle(), "projects/p/bundles/ab");
  EXPECT_EQ(placement.output(), "projects/p/jobs/j/output");
  ASSERT_EQ(placement.versions_size(), 2);
  EXPECT_EQ(placement.versions(0), VersionDigest("projects/p/datasets/d/versions/v1"));
  EXPECT_EQ(placement.versions(1), VersionDigest("projects/q/datasets/e/versions/v2"));
  // echo -n … | sha256sum | head -c 32
  EXPECT_EQ(VersionDigest("projects/p/datasets/d/versions/v1"), "90ad9330d685cff57d45d1a2db586b68");
  task.mutable_launch()->clear_bundle();
  EXPECT_EQ(PlacementOf("local", task).bundle(), "");
}

TEST(PlacementTest, AGrantIsKeptWhileItIsYoung) {
  const DesiredTask known = Granted(kThen);
  EXPECT_EQ(AfterKeeping(known, Granted(kThen + kGrantKeptFor - absl::Seconds(1))), kThen);
  EXPECT_EQ(AfterKeeping(known, Granted(kThen + kGrantKeptFor)), kThen + kGrantKeptFor);
  // From a scheduler that gives none, or whose clock is behind.
  EXPECT_EQ(AfterKeeping(known, DesiredTask()), kThen);
  EXPECT_EQ(AfterKeeping(known, Granted(kThen - absl::Hours(1))), kThen);
  // The first one.
  EXPECT_EQ(AfterKeeping(DesiredTask(), Granted(kThen)), kThen);
}

TEST(PlacementTest, WhatCannotBeReadIsReplaced) {
  DesiredTask damaged;
  damaged.mutable_grant()->set_placement("\xff");
  EXPECT_EQ(AfterKeeping(damaged, Granted(kThen)), kThen);
}

}  // namespace
}  // namespace capstan::session
