#include "integration/platform/joined_node.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/cgroup/cgroup.h"
#include "libs/safe_path/safe_path.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

// Below those of the machine's own outgoing connections, above those of the platform's own Node.
constexpr int kFirstPort = 30000;
constexpr int kPorts = 100;

}  // namespace

JoinedNode::JoinedNode(TestPlatform* platform, absl::string_view name, int number,
                       absl::string_view config)
    : platform_(platform),
      folder_(absl::StrCat(platform->folder(), "/", name)),
      cgroup_(absl::StrCat("capstan-joined-", getpid(), "-", name)) {
  const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
  if (!endpoints.ok()) {
    ADD_FAILURE() << endpoints.status();
    return;
  }
  const auto peer = [&endpoints](const char* part) {
    return absl::StrCat("{addresses: [", endpoints->parts().at(part).address(), "]}\n");
  };
  const std::string token = folder_ + ".token";
  const absl::Status written = WriteFileAtomically(
      token, platform_->MustCapstan({"access", "join-token", absl::StrCat("/node/local/", name)}),
      0600);
  EXPECT_TRUE(written.ok()) << written;
  const std::string file = folder_ + ".yaml";
  std::ofstream(file) << "process:\n  data_folder: " << folder_
                      << "\n  joining: {address: " << endpoints->join_address()
                      << ", token_file: " << token << "}\n  credentials: " << peer("credentials")
                      << "  log: {file: " << folder_ << ".log}\n  monitoring: {inventory: "
                      << "{addresses: [" << endpoints->parts().at("telemetry").address()
                      << "]}}\n  metrics_listen: 127.0.0.1:0\ncluster: local\nnode: " << name
                      << "\nexecutor: " << peer("executor")
                      << "data_loader: " << peer("data_loader")
                      << "telemetry: " << peer("telemetry") << "cgroup_name: " << cgroup_
                      << "\nhidden_paths: [" << platform_->data_dir() << "]\nshared_paths: ["
                      << platform_->folder()
                      << "/witness]\nreserved: {cpu: 0, memory: 0}\nfirst_port: "
                      << kFirstPort + number * kPorts
                      << "\nlast_port: " << kFirstPort + (number + 1) * kPorts - 1 << "\n"
                      << config;
  dev::SpawnOptions spawn;
  spawn.argv = platform_->CommandLine({"serve", "node_agent", "--config", file});
  spawn.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
  spawn.output_file = folder_ + ".out";
  auto agent = dev::Child::Spawn(spawn);
  if (!agent.ok()) {
    ADD_FAILURE() << agent.status();
    return;
  }
  agent_.emplace(*std::move(agent));
  EXPECT_TRUE(platform_->Await([&] {
    return absl::StrContains(platform_->Capstan({"node", "list"}).out,
                             absl::StrCat("clusters/local/nodes/", name, " "));
  })) << name
      << " is no Node";
}

JoinedNode::~JoinedNode() {
  if (agent_.has_value()) {
    // Its Tasks too, as those of a platform that goes down.
    dev::SignalProcess(agent_->id(), SIGUSR1);
    if (!dev::WaitForEnd(agent_->id(), absl::Seconds(20))) {
      ADD_FAILURE() << folder_ << ": the agent does not end";
      dev::SignalProcess(agent_->id(), SIGKILL);
    }
    waitpid(agent_->id().pid, nullptr, 0);
  }
  if (::testing::Test::HasFailure()) {
    for (const char* of : {".log", ".out"}) {
      std::ifstream in(folder_ + of);
      const std::string log((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      ADD_FAILURE() << folder_ << of << " ends with\n"
                    << log.substr(log.size() > 3000 ? log.size() - 3000 : 0);
    }
  }
  const auto tree = cgroup::Tree::Open(cgroup_);
  if (tree.ok()) (void)tree->RemoveTree();
}

}  // namespace capstan::integration
