// The main job on several hosts: trained over a gang while what carries it is killed, measured on
// images that it never saw, watched by a real Prometheus.
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "integration/fleet/fleet.h"
#include "integration/monitoring/prometheus_server.h"
#include "integration/platform/command.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

// What one of the example's scripts prints.
std::string Script(const std::string& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"/usr/bin/python3"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const CommandResult result =
      RunCommand(argv, {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "OPENBLAS_NUM_THREADS=1"}, folder);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  return result.out;
}

TEST(FleetDigitsTest, TrainsOverThreeHostsWhileLeaderMemberAndHostAreKilled) {
  const auto unable = Fleet::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  Fleet fleet(
      {.config = "fencing: {min_fence_after: 1s, replace_margin: 1s, suspect_after: 10s}\n"});
  ASSERT_TRUE(fleet.Start());
  TestPlatform& platform = fleet.platform();
  const auto endpoints = cli::ReadEndpoints(platform.data_dir());
  ASSERT_TRUE(endpoints.ok()) << endpoints.status();
  const std::string scrape = platform.folder() + "/prometheus.yaml";
  std::ofstream(scrape) << ScrapeConfig(
      absl::StrCat("http://", endpoints->parts().at("telemetry").metrics_address(), "/targets"));
  const auto watched = PrometheusServer::Start(scrape, platform.folder());
  ASSERT_TRUE(watched.ok()) << watched.status();
  const PrometheusServer& prometheus = **watched;
  const std::string bucket = platform.data_dir() + "/buckets/digits";
  mkdir((platform.data_dir() + "/buckets").c_str(), 0700);
  const std::string example = platform.CopyOfExample();
  Script(platform.folder(), {example + "/prepare.py", bucket});
  platform.MustCapstan({"dataset", "create", "digits", "--source", bucket});
  const std::string submit = example + "/train.yaml";
  const std::string text = absl::StrReplaceAll(
      Contents(submit), {{"job_id: digits-%", "job_id: digits"},
                         {"DIGITS_STEPS: \"6000\"", "DIGITS_STEPS: \"20000\""},
                         {"memory: 256Mi", "memory: 256Mi\n        accelerators: {slot: 1}"},
                         {"  stop_grace: 5s", "  stop_grace: 2s\n  fence_after: 20s"}});
  std::ofstream(submit) << text;
  platform.MustCapstan({"job", "submit", submit});

  const auto runs = [&](int64_t generation) {
    const scheduler::v1::Job job = platform.Get("digits");
    return job.generation() == generation && job.state() == scheduler::v1::Job::STATE_RUNNING;
  };
  const auto has_checkpoint = [&] {
    dataloader::v1::Output output;
    const CommandResult got = platform.Capstan({"job", "output", "digits", "-o", "json"});
    return got.exit_code == 0 &&
           google::protobuf::util::JsonStringToMessage(got.out, &output).ok() &&
           output.checkpoints_size() > 0;
  };
  ASSERT_TRUE(platform.Await([&] { return runs(1) && has_checkpoint(); }));
  // Every process on every host, by the list that they themselves are on.
  const double parts = endpoints->parts_size();
  EXPECT_TRUE(platform.Await([&] {
    return prometheus.Value("count(up == 1)") == parts + 3 &&
           prometheus.Value("count(up{service=\"node_agent\"} == 1)") == 3 &&
           prometheus.Value("sum(capstan_scheduler_leader)") == 1;
  })) << prometheus.Api("targets?state=active").dump();

  const auto leader = platform.Part(fleet.Leader());
  ASSERT_TRUE(leader.has_value());
  dev::SignalProcess(*leader, SIGKILL);
  fleet.etcd().Kill(0);
  ASSERT_TRUE(fleet.AwaitLeaderOtherThan(*leader).has_value());
  int victim = -1;
  const scheduler::v1::Job first = platform.Get("digits");
  for (const auto& task : first.tasks()) {
    const std::string& node = task.node();
    if (task.rank() == 0 && !node.empty()) victim = node.back() - '0';
  }
  ASSERT_TRUE(victim >= 0 && victim < 3) << victim;
  fleet.KillHost(victim);
  ASSERT_TRUE(platform.Await([&] { return runs(2); }));
  EXPECT_TRUE(platform.Await([&] {
    return prometheus.Value(absl::StrCat("up{node=\"h", victim, "\"}")) == 0 &&
           prometheus.Value("count(up == 1)") == parts + 2;
  })) << prometheus.Api("targets?state=active").dump();
  const auto job = platform.MustSucceed("digits");
  EXPECT_EQ(job.generation(), 2);

  dataloader::v1::Output output;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                  platform.MustCapstan({"job", "output", "digits", "-o", "json"}), &output)
                  .ok());
  std::string model;
  for (const auto& task : output.task_outputs()) {
    if (task.rank() == 0) model = task.directory();
  }
  ASSERT_NE(model, "");
  const std::string measured = Script(platform.folder(), {example + "/evaluate.py", model});
  std::printf("%s", measured.c_str());
  double accuracy = 0;
  const size_t at = measured.find("\"accuracy\": ");
  ASSERT_NE(at, std::string::npos) << measured;
  ASSERT_TRUE(absl::SimpleAtod(measured.substr(at + 12, measured.find_first_of(",}", at) - at - 12),
                               &accuracy));
  EXPECT_GT(accuracy, 0.95);
  ASSERT_TRUE(fleet.etcd().Restart(0).ok());
}

}  // namespace
}  // namespace capstan::integration
