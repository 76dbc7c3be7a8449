// A real Prometheus scrapes a whole platform through our list of targets, with our alert rules, and
// says so when a Node's agent dies.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/monitoring/http_request.h"
#include "integration/monitoring/prometheus_server.h"
#include "integration/platform/test_platform.h"
#include "libs/cgroup/cgroup.h"
#include "libs/safe_path/safe_path.h"
#include "nlohmann/json.hpp"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using ::testing::UnorderedElementsAre;

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

class PrometheusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>();
    platform_->Up();
    ASSERT_TRUE(platform_->AwaitReady());
    const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
    ASSERT_TRUE(endpoints.ok()) << endpoints.status();
    endpoints_ = *endpoints;
    targets_url_ =
        absl::StrCat("http://", endpoints_.parts().at("telemetry").metrics_address(), "/targets");
  }
  ~PrometheusTest() override {
    prometheus_ = nullptr;
    if (agent_.has_value()) {
      dev::SignalProcess(agent_->id(), SIGUSR1);
      waitpid(agent_->id().pid, nullptr, 0);
    }
    if (!cgroup_.empty()) {
      const auto tree = cgroup::Tree::Open(cgroup_);
      if (tree.ok()) (void)tree->RemoveTree();
    }
  }

  std::string Address(const char* part) const { return endpoints_.parts().at(part).address(); }

  // A Node that no supervisor knows: configured and joined as one on another host is.
  void StartAgent() {
    const std::string folder = platform_->folder() + "/h1";
    const std::string config = folder + ".yaml";
    if (cgroup_.empty()) {
      cgroup_ = absl::StrCat("capstan-monitoring-", getpid());
      const std::string token = folder + ".token";
      ASSERT_EQ(
          WriteFileAtomically(
              token, platform_->MustCapstan({"access", "join-token", "/node/local/h1"}), 0600),
          absl::OkStatus());
      std::ofstream(config) << "process:\n  data_folder: " << folder
                            << "\n  metrics_listen: 127.0.0.1:0\n"
                            << "  joining: {address: " << endpoints_.join_address()
                            << ", token_file: " << token << "}\n  credentials: {addresses: ["
                            << Address("credentials") << "]}\n  log: {file: " << folder
                            << ".log}\n  monitoring: {inventory: {addresses: ["
                            << Address("telemetry")
                            << "]}}\ncluster: local\nnode: h1\nexecutor: {addresses: ["
                            << Address("executor") << "]}\ndata_loader: {addresses: ["
                            << Address("data_loader") << "]}\ntelemetry: {addresses: ["
                            << Address("telemetry") << "]}\ncgroup_name: " << cgroup_
                            << "\nhidden_paths: [" << platform_->data_dir()
                            << "]\ndata_cache: {shared_site: false}\n";
    }
    dev::SpawnOptions spawn;
    spawn.argv = platform_->CommandLine({"serve", "node_agent", "--config", config});
    spawn.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
    spawn.output_file = folder + ".out";
    auto spawned = dev::Child::Spawn(spawn);
    ASSERT_TRUE(spawned.ok()) << spawned.status();
    agent_.emplace(*std::move(spawned));
  }

  void StartPrometheus() {
    // As the repository has it, but for times that a test can wait for.
    const std::string folder = platform_->folder();
    std::vector<std::string> rules = absl::StrSplit(Contents("infra/monitoring/alerts.yaml"), '\n');
    for (std::string& line : rules) {
      const size_t at = line.find(" for: ");
      if (at != std::string::npos) line.replace(at, std::string::npos, " for: 2s");
    }
    std::ofstream(folder + "/alerts.yaml") << absl::StrJoin(rules, "\n");
    const std::string config = folder + "/prometheus.yaml";
    std::ofstream(config) << ScrapeConfig(targets_url_, "alerts.yaml");
    auto started = PrometheusServer::Start(config, folder);
    ASSERT_TRUE(started.ok()) << started.status();
    prometheus_ = *std::move(started);
    ASSERT_TRUE(platform_->Await([&] { return prometheus_->Ready(); }))
        << Contents(folder + "/prometheus.log");
  }

  // `<service> <cluster>/<node> <health>` of what Prometheus scrapes.
  std::multiset<std::string> Scraped() {
    std::multiset<std::string> found;
    const nlohmann::json data = prometheus_->Api("targets?state=active");
    if (!data.is_object()) return found;
    for (const nlohmann::json& target : data["activeTargets"]) {
      const nlohmann::json& labels = target["labels"];
      found.insert(absl::StrCat(labels.value("service", ""), " ", labels.value("cluster", ""), "/",
                                labels.value("node", ""), " ", target.value("health", "")));
    }
    return found;
  }
  size_t Up() {
    const std::multiset<std::string> scraped = Scraped();
    return std::count_if(scraped.begin(), scraped.end(), [](const std::string& target) {
      return target.size() > 3 && target.substr(target.size() - 3) == " up";
    });
  }
  std::vector<std::string> Firing() {
    std::vector<std::string> firing;
    const nlohmann::json data = prometheus_->Api("alerts");
    if (!data.is_object()) return {"no answer"};
    for (const nlohmann::json& alert : data["alerts"]) {
      if (alert.value("state", "") != "firing") continue;
      // Says something about the machine that runs the test.
      if (alert["labels"].value("alertname", "") == "CapstanStoreSlow") continue;
      firing.push_back(absl::StrCat(alert["labels"].value("alertname", ""), " ",
                                    alert["labels"].value("node", "")));
    }
    return firing;
  }

  std::unique_ptr<TestPlatform> platform_;
  cli::v1::Endpoints endpoints_;
  std::string targets_url_;
  std::string cgroup_;
  absl::optional<dev::Child> agent_;
  std::unique_ptr<PrometheusServer> prometheus_;
};

constexpr size_t kTargets = 8;

TEST_F(PrometheusTest, ScrapesEveryProcessAndSaysWhenOneIsGone) {
  StartAgent();
  ASSERT_TRUE(platform_->Await([&] {
    const nlohmann::json list = nlohmann::json::parse(HttpGet(targets_url_).body, nullptr, false);
    return list.is_array() && list.size() == kTargets;
  })) << HttpGet(targets_url_).body
      << Contents(platform_->folder() + "/h1.log");
  const HttpAnswer list = HttpGet(targets_url_);
  EXPECT_EQ(list.content_type, "application/json");

  StartPrometheus();
  ASSERT_TRUE(platform_->Await([&] { return Up() == kTargets; }))
      << ::testing::PrintToString(Scraped());
  EXPECT_THAT(Scraped(), UnorderedElementsAre(
                             "cluster_manager / up", "credentials / up", "data_loader / up",
                             "executor local/ up", "node_agent local/h1 up",
                             "node_agent local/node-0 up", "scheduler / up", "telemetry / up"));
  // Of every page: known by Prometheus' own lint, without findings.
  for (const nlohmann::json& target : nlohmann::json::parse(list.body)) {
    const std::string address = target["targets"][0].get<std::string>();
    const HttpAnswer page = HttpGet(absl::StrCat("http://", address, "/metrics"));
    EXPECT_EQ(page.content_type, "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_EQ(CheckMetrics(page.body, platform_->folder()), "") << target.dump();
  }

  // All rules are in force; none of them has anything to say about a platform that is well.
  size_t rules = 0;
  ASSERT_TRUE(platform_->Await([&] {
    return prometheus_->Value("min(capstan_process_svid_lifetime_seconds)").has_value();
  }));
  const nlohmann::json groups = prometheus_->Api("rules")["groups"];
  for (const nlohmann::json& group : groups) {
    for (const nlohmann::json& rule : group["rules"]) {
      ++rules;
      EXPECT_NE(rule.value("health", ""), "err") << rule.dump();
    }
  }
  const std::vector<std::string> alerts =
      absl::StrSplit(Contents("infra/monitoring/alerts.yaml"), "- alert: ");
  EXPECT_EQ(rules, alerts.size() - 1);
  EXPECT_TRUE(platform_->Await([&] { return Firing().empty(); })) << absl::StrJoin(Firing(), "\n");
  EXPECT_EQ(prometheus_->Value("sum(capstan_scheduler_leader)"), 1);
  EXPECT_EQ(prometheus_->Value("sum(capstan_executor_nodes)"), 2);

  dev::SignalProcess(agent_->id(), SIGKILL);
  waitpid(agent_->id().pid, nullptr, 0);
  agent_.reset();
  EXPECT_TRUE(platform_->Await([&] {
    const std::vector<std::string> firing = Firing();
    return std::count(firing.begin(), firing.end(), "CapstanPartDown h1") == 1;
  })) << absl::StrJoin(Firing(), "\n");
  EXPECT_EQ(Up(), kTargets - 1);
  EXPECT_EQ(prometheus_->Value("up{node=\"h1\"}"), 0);

  StartAgent();
  EXPECT_TRUE(platform_->Await([&] { return Up() == kTargets && Firing().empty(); }))
      << absl::StrJoin(Firing(), "\n") << ::testing::PrintToString(Scraped());
}

TEST_F(PrometheusTest, TheListIsWholeAsSoonAsTelemetryIsBack) {
  const auto listed = [&] {
    const nlohmann::json list = nlohmann::json::parse(HttpGet(targets_url_).body, nullptr, false);
    return list.is_array() ? list.size() : 0;
  };
  ASSERT_TRUE(platform_->Await([&] { return listed() == kTargets - 1; }));
  // Written within five seconds of the last change.
  ASSERT_TRUE(platform_->Await([&] {
    const std::string kept = Contents(platform_->data_dir() + "/telemetry/scrape_targets");
    for (const char* part : {"credentials", "telemetry", "data_loader", "scheduler",
                             "cluster_manager", "/executor/", "node-0"}) {
      if (kept.find(part) == std::string::npos) return false;
    }
    return true;
  }));
  platform_->KillAndAwait("telemetry");
  size_t first = 0;
  ASSERT_TRUE(platform_->Await([&] {
    const HttpAnswer answer = HttpGet(targets_url_);
    if (answer.status == 200) first = nlohmann::json::parse(answer.body).size();
    return answer.status == 200;
  }));
  EXPECT_EQ(first, kTargets - 1);
}

}  // namespace
}  // namespace capstan::integration
