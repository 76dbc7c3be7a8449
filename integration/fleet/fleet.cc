#include "integration/fleet/fleet.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "curl/curl.h"
#include "gtest/gtest.h"
#include "integration/platform/store_config.h"
#include "libs/cgroup/cgroup.h"
#include "libs/safe_path/folder_names.h"
#include "libs/safe_path/safe_path.h"
#include "libs/time/system_clock.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

constexpr absl::string_view kServices[] = {"cluster_manager", "credentials", "data_loader",
                                           "executor",        "node_agent",  "scheduler",
                                           "telemetry"};

std::string Absolute(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  std::string absolute = resolved == nullptr ? path : resolved;
  free(resolved);
  return absolute;
}

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

BootTime Now() { return SystemClock().Read().boot; }

size_t Append(const char* bytes, size_t size, size_t count, void* to) {
  static_cast<std::string*>(to)->append(bytes, size * count);
  return size * count;
}

// Empty if nobody answers in time.
std::string Scrape(const std::string& metrics_address) {
  std::string text;
  CURL* const curl = curl_easy_init();
  curl_easy_setopt(curl, CURLOPT_URL, absl::StrCat("http://", metrics_address, "/metrics").c_str());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 500L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
  curl_easy_perform(curl);
  curl_easy_cleanup(curl);
  return text;
}

// The addresses of all replicas of a service.
std::string Replicas(const cli::v1::Endpoints& endpoints, absl::string_view service) {
  std::vector<std::string> addresses;
  for (const auto& [part, entry] : endpoints.parts()) {
    if (part == service || absl::StartsWith(part, absl::StrCat(service, "-"))) {
      addresses.push_back(entry.address());
    }
  }
  return absl::StrJoin(addresses, ", ");
}

}  // namespace

absl::optional<std::string> Fleet::Unable() {
  if (auto unable = TestPlatform::Unable()) return unable;
  return Network::Unable();
}

Fleet::Fleet(Options options) : options_(std::move(options)) {}

Fleet::~Fleet() {
  // What is cut off cannot say that its Tasks have ended, and waits to.
  for (size_t host = 0; host < hosts_.size(); ++host) {
    (void)network_->Mend(static_cast<int>(host));
  }
  StopAgents();
  if (::testing::Test::HasFailure()) {
    for (const Host& host : hosts_) {
      const std::string log = Contents(host.folder + ".log");
      ADD_FAILURE() << host.folder << " ends with\n"
                    << log.substr(log.size() > 3000 ? log.size() - 3000 : 0);
    }
  }
  for (const Host& host : hosts_) {
    const auto tree = cgroup::Tree::Open(host.cgroup);
    if (tree.ok()) (void)tree->RemoveTree();
  }
  platform_ = nullptr;
  network_ = nullptr;
  etcd_ = nullptr;
}

std::string Fleet::PlatformConfig() const {
  return absl::StrCat("host: ", network_->own_address(), "\nschedulers: ", options_.schedulers,
                      "\ndata_loaders: ", options_.data_loaders,
                      "\ncluster_managers: ", options_.cluster_managers, "\nno_local_node: true\n",
                      StoreConfig(*etcd_), options_.config);
}

bool Fleet::Start() {
  auto etcd = testenv::EtcdServer::Start({.members = options_.etcd_members});
  EXPECT_TRUE(etcd.ok()) << etcd.status();
  auto network = Network::Create(options_.hosts);
  EXPECT_TRUE(network.ok()) << network.status();
  if (!etcd.ok() || !network.ok()) return false;
  etcd_ = *std::move(etcd);
  network_ = *std::move(network);
  platform_ = std::make_unique<TestPlatform>(PlatformConfig());
  const std::string programs = platform_->folder() + "/programs";
  mkdir(programs.c_str(), 0755);
  for (const absl::string_view service : kServices) {
    mkdir(absl::StrCat(programs, "/", service).c_str(), 0755);
    Use(options_.services, service);
  }
  platform_->Up({"--split", programs});
  if (::testing::Test::HasFailure()) return false;
  for (int host = 0; host < options_.hosts; ++host) {
    const std::string name = absl::StrCat("h", host);
    hosts_.push_back({.folder = absl::StrCat(platform_->folder(), "/", name),
                      .cgroup = absl::StrCat("capstan-fleet-", getpid(), "-", name),
                      .agent = absl::nullopt,
                      .executor = absl::nullopt});
    StartHost(host);
  }
  for (int host = 0; host < nodes(); ++host) {
    EXPECT_TRUE(platform_->Await([&] { return IsNode(host); })) << "host " << host;
  }
  return !::testing::Test::HasFailure();
}

std::string Fleet::ProgramOf(absl::string_view service) const {
  return absl::StrCat(platform_->folder(), "/programs/", service, "/", service, "_main");
}

void Fleet::Use(const std::string& services, absl::string_view part) {
  // A replica is named after its service: scheduler-2.
  const absl::string_view service = part.substr(0, part.find('-'));
  const std::string program = Absolute(absl::StrCat(services, "/", service, "/", service, "_main"));
  const std::string link = ProgramOf(service);
  const std::string next = link + ".new";
  EXPECT_EQ(symlink(program.c_str(), next.c_str()), 0) << program;
  EXPECT_EQ(rename(next.c_str(), link.c_str()), 0) << link;
}

std::string Fleet::ProcessConfig(const std::string& folder, const std::string& identity) {
  const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
  EXPECT_TRUE(endpoints.ok()) << endpoints.status();
  if (!endpoints.ok()) return "";
  const std::string token = folder + ".token";
  const absl::Status written =
      WriteFileAtomically(token, platform_->MustCapstan({"access", "join-token", identity}), 0600);
  EXPECT_TRUE(written.ok()) << written;
  return absl::StrCat(
      "process:\n  data_folder: ", folder, "\n  joining:\n    address: ", endpoints->join_address(),
      "\n    token_file: ", token, "\n  credentials: {addresses: [",
      Replicas(*endpoints, "credentials"), "]}\n  log: {file: ", folder,
      ".log}\n  monitoring: {inventory: {addresses: [", Replicas(*endpoints, "telemetry"), "]}}\n");
}

void Fleet::SpawnOn(int host, absl::string_view service, const std::string& config,
                    const std::string& output_file, absl::optional<dev::Child>* child) {
  dev::SpawnOptions spawn;
  spawn.argv = network_->On(host);
  spawn.argv.insert(spawn.argv.end(), {ProgramOf(service), "--config", config});
  spawn.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
  spawn.output_file = output_file;
  auto spawned = dev::Child::Spawn(spawn);
  ASSERT_TRUE(spawned.ok()) << spawned.status();
  child->emplace(*std::move(spawned));
}

void Fleet::StartHost(int host) {
  Host& here = hosts_[host];
  const std::string name = absl::StrCat("h", host);
  const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
  ASSERT_TRUE(endpoints.ok()) << endpoints.status();
  const auto address = [&](const char* part) { return endpoints->parts().at(part).address(); };
  const std::string executor = IsEast(host) || HasExecutor(host)
                                   ? absl::StrCat(network_->address(options_.hosts - 1), ":7105")
                                   : address("executor");
  if (HasExecutor(host)) {
    const std::string folder = here.folder + "-executor";
    const std::string config = folder + ".yaml";
    if (access(config.c_str(), F_OK) != 0) {
      // Its Jobs' uids are others than those of the Cluster whose hosts have the same file system.
      std::ofstream(config) << ProcessConfig(folder, "/executor/east") << "  listen: " << executor
                            << "\n  metrics_listen: " << network_->address(host)
                            << ":9105\ncluster: east\nscheduler: "
                            << "{addresses: [" << Replicas(*endpoints, "scheduler")
                            << "]}\nfirst_uid: 80000\nlast_uid: 89999\n";
    }
    SpawnOn(host, "executor", config, folder + ".out", &here.executor);
  }
  if (host >= nodes()) return;
  const std::string config = here.folder + ".yaml";
  if (access(config.c_str(), F_OK) != 0) {
    const std::string cluster = ClusterOf(host);
    std::ofstream(config) << ProcessConfig(here.folder, absl::StrCat("/node/", cluster, "/", name))
                          << "  metrics_listen: " << network_->address(host)
                          << ":9106\ncluster: " << cluster << "\nnode: " << name
                          << "\nexecutor: {addresses: [" << executor
                          << "]}\ndata_loader: {addresses: [" << Replicas(*endpoints, "data_loader")
                          << "]}\ntelemetry: {addresses: [" << address("telemetry")
                          << "]}\nhost: " << network_->address(host)
                          << "\ncgroup_name: " << here.cgroup << "\nhidden_paths: ["
                          << platform_->data_dir() << "]\nshared_paths: [" << platform_->folder()
                          << "/witness]\nreserved: {cpu: 0, memory: 0}\n"
                          << "data_cache: {shared_site: false, peers: {listen: "
                          << network_->address(host) << ":7107}}\naccelerators: {slot: "
                          << options_.slots * (IsEast(host) ? 2 : 1) << "}\n";
  }
  SpawnOn(host, "node_agent", config, here.folder + ".out", &here.agent);
}

void Fleet::RestartAgent(int host) {
  Host& here = hosts_[host];
  dev::SignalProcess(here.agent->id(), SIGTERM);
  waitpid(here.agent->id().pid, nullptr, 0);
  here.agent.reset();
  SpawnOn(host, "node_agent", here.folder + ".yaml", here.folder + ".out", &here.agent);
}

std::vector<pid_t> Fleet::PidsOn(int host) const {
  // A process is on the host whose network it sees.
  struct stat there = {};
  std::vector<pid_t> pids;
  const absl::optional<dev::Child>& agent = hosts_[host].agent;
  if (!agent.has_value() ||
      stat(absl::StrCat("/proc/", agent->id().pid, "/ns/net").c_str(), &there) != 0) {
    return pids;
  }
  for (const std::string& name : FolderNames("/proc")) {
    pid_t pid = 0;
    struct stat one = {};
    if (absl::SimpleAtoi(name, &pid) &&
        stat(absl::StrCat("/proc/", name, "/ns/net").c_str(), &one) == 0 &&
        one.st_ino == there.st_ino) {
      pids.push_back(pid);
    }
  }
  return pids;
}

void Fleet::KillHost(int host) {
  const std::vector<pid_t> pids = PidsOn(host);
  // Stopped first, so that none sees another one die.
  for (const pid_t pid : pids) kill(pid, SIGSTOP);
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  for (absl::optional<dev::Child>* child : {&hosts_[host].agent, &hosts_[host].executor}) {
    if (!child->has_value()) continue;
    waitpid((*child)->id().pid, nullptr, 0);
    child->reset();
  }
}

void Fleet::StopAgents() {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    absl::optional<dev::Child>& agent = hosts_[host].agent;
    if (!agent.has_value()) continue;
    // SIGUSR1 ends the Tasks too; what is cut off from its executor ends all the same.
    dev::SignalProcess(agent->id(), SIGUSR1);
    if (!dev::WaitForEnd(agent->id(), absl::Seconds(20))) {
      ADD_FAILURE() << "the agent of host " << host << " does not end";
      KillHost(static_cast<int>(host));
      continue;
    }
    waitpid(agent->id().pid, nullptr, 0);
    agent.reset();
  }
  for (Host& host : hosts_) {
    if (!host.executor.has_value()) continue;
    dev::SignalProcess(host.executor->id(), SIGTERM);
    waitpid(host.executor->id().pid, nullptr, 0);
    host.executor.reset();
  }
}

std::string Fleet::Leader() {
  const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
  if (!endpoints.ok()) return "";
  for (const auto& [name, part] : endpoints->parts()) {
    if (!absl::StartsWith(name, "scheduler") || !platform_->Part(name).has_value()) continue;
    if (absl::StrContains(Scrape(part.metrics_address()), "\ncapstan_scheduler_leader 1\n")) {
      return name;
    }
  }
  return "";
}

absl::optional<absl::Duration> Fleet::AwaitLeaderOtherThan(const dev::ProcessId& former) {
  const BootTime begun = Now();
  const bool found = platform_->Await([&] {
    const std::string leader = Leader();
    if (leader.empty()) return false;
    const auto process = platform_->Part(leader);
    return process.has_value() && process->pid != former.pid;
  });
  if (!found) return absl::nullopt;
  return Now() - begun;
}

bool Fleet::IsNode(int host) {
  const CommandResult listed = platform_->Capstan({"node", "list"});
  return absl::StrContains(listed.out,
                           absl::StrCat("clusters/", ClusterOf(host), "/nodes/h", host, " "));
}

int Fleet::HostOf(const std::string& job, int64_t generation, int rank) {
  const auto task = platform_->FindTask(job, generation, rank);
  if (!task.has_value()) return -1;
  for (int host = 0; host < options_.hosts; ++host) {
    for (const pid_t pid : PidsOn(host)) {
      if (pid == task->program.pid) return host;
    }
  }
  return -1;
}

}  // namespace capstan::integration
