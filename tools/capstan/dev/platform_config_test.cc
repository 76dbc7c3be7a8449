#include "tools/capstan/dev/platform_config.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::dev {
namespace {

using ::testing::ElementsAre;

class PlatformConfigTest : public ::testing::Test {
 protected:
  absl::Status Install(const std::string& text) {
    const std::string file = absl::StrCat(folder_, "platform.yaml");
    const absl::Status written = WriteFileAtomically(file, text, 0600);
    return written.ok() ? InstallPlatformConfig(file, folder_) : written;
  }

  const std::string folder_ = ::testing::TempDir();
};

TEST_F(PlatformConfigTest, WhatIsInstalledIsRead) {
  ASSERT_TRUE(Install("credentials: {svid_ttl: 30s}\nfencing: {suspect_after: 10s}").ok());
  const auto config = ReadPlatformConfig(folder_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->credentials().svid_ttl().seconds(), 30);
  EXPECT_EQ(config->fencing().suspect_after().seconds(), 10);
}

TEST_F(PlatformConfigTest, ValuesOutOfRangeAreNamedTogether) {
  const absl::Status refused = Install(
      "credentials: {svid_ttl: 29s, task_svid_ttl: 721h, person_svid_ttl: 0s, policy_valid: 9s}\n"
      "fencing: {suspect_after: 3s, min_fence_after: 1ms, replace_margin: 0s}\n"
      "node_agent: {shared_paths: [relative], log_limit: 1023Ki, mig_gpus: [{model: H1}]}\n"
      "scheduler: {max_waiting_events: 9, max_jobs: 999, mig_repartition: {max_cost: 59s, pause: "
      "25h}, batch_simulations: {max_core_percent: 101}}\n"
      "monitoring: {target_readers: [10.0.0.0/8, anybody]}");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  std::vector<std::string> fields;
  for (const status::FieldViolation& violation : status::GetFieldViolations(refused)) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(
      fields,
      ElementsAre("credentials.svid_ttl", "credentials.task_svid_ttl",
                  "credentials.person_svid_ttl", "credentials.policy_valid",
                  "fencing.suspect_after", "fencing.min_fence_after", "fencing.replace_margin",
                  "node_agent.shared_paths[0]", "node_agent.mig_gpus[0].model",
                  "node_agent.log_limit", "scheduler.max_waiting_events", "scheduler.max_jobs",
                  "scheduler.batch_simulations.max_core_percent", "scheduler.mig_repartition.pause",
                  "scheduler.mig_repartition.max_cost", "monitoring.target_readers"));
}

TEST_F(PlatformConfigTest, GpusAreFoundOrDeclaredNotBoth) {
  EXPECT_TRUE(
      Install("node_agent: {discover_gpus: true, accelerators: {slot: 4}, shared_paths: [/tmp]}")
          .ok());
  const auto refused = status::GetFieldViolations(
      Install("node_agent: {discover_gpus: true, accelerators: {nvidia.com/h100-80gb: 8}, "
              "mig_gpus: [{index: 0, model: H100-80GB}]}"));
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].field, "node_agent.accelerators[nvidia.com/h100-80gb]");
  EXPECT_EQ(refused[1].field, "node_agent.mig_gpus");
}

TEST_F(PlatformConfigTest, WhatMovingMayCostIsNoLessThanAMove) {
  const auto refused = [this](const std::string& settings) {
    const auto violations = status::GetFieldViolations(
        Install(absl::StrCat("scheduler: {mig_repartition: {", settings, "}}")));
    return violations.empty() ? "" : violations[0].description;
  };
  EXPECT_EQ(
      refused("max_cost: 30s"),
      "is 30s; expected 1m (`act_cost`, which each move costs) to 720h, or 0s to move nobody");
  EXPECT_EQ(
      refused("max_cost: 721h, act_cost: 2s"),
      "is 721h; expected 2s (`act_cost`, which each move costs) to 720h, or 0s to move nobody");
  EXPECT_EQ(refused("act_cost: 0s"), "is 0; expected 1s to 24h");
  EXPECT_EQ(refused("max_cost: 0s"), "");
  EXPECT_EQ(refused("max_cost: 2s, act_cost: 2s, pause: 0s"), "");
}

TEST_F(PlatformConfigTest, ReplicasOfCredentialsShareAStoreAndTheKeyOfTheFirst) {
  const absl::Status alone = Install("credentials: {replicas: 2}");
  ASSERT_EQ(status::GetFieldViolations(alone).size(), 1u) << alone;
  EXPECT_EQ(status::GetFieldViolations(alone)[0].field, "credentials.replicas");
  EXPECT_FALSE(Install("credentials: {replicas: 6}\nstore: {etcd: {endpoints: [e:1]}}").ok());
  cli::v1::PlatformConfig config;
  config.mutable_credentials()->set_replicas(2);
  const std::vector<PartSpec> parts = PartsOf(config);
  ASSERT_GE(parts.size(), 2u);
  EXPECT_EQ(parts[1].name, "credentials-2");
  EXPECT_EQ(parts[1].service, kCredentials);
  EXPECT_EQ(parts[1].identity_path, "/svc/credentials");
}

}  // namespace
}  // namespace capstan::dev
