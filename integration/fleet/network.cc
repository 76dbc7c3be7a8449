#include "integration/fleet/network.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

constexpr char kRelay[] = "integration/fleet/delay_relay";
// As delay_relay_main.cc has it.
constexpr int kReadyFd = 3;

absl::Status Run(const std::vector<std::string>& argv) {
  const TemporaryFolder folder;
  dev::SpawnOptions spawn;
  // Finds the program, which is not in the same folder everywhere.
  spawn.argv = {"/usr/bin/env"};
  spawn.argv.insert(spawn.argv.end(), argv.begin(), argv.end());
  spawn.environment = {"PATH=/usr/sbin:/sbin:/usr/bin:/bin"};
  spawn.output_file = folder.path() + "/out";
  const auto child = dev::Child::Spawn(spawn);
  if (!child.ok()) return child.status();
  int wait_status = 0;
  waitpid(child->id().pid, &wait_status, 0);
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return absl::OkStatus();
  std::ifstream in(spawn.output_file);
  return status::Error(absl::StatusCode::kInternal, "COMMAND_FAILED",
                       absl::StrCat(absl::StrJoin(argv, " "), ": ",
                                    std::string((std::istreambuf_iterator<char>(in)),
                                                std::istreambuf_iterator<char>())));
}

// Second and third byte of the addresses 10.x.y.z of this machine.
std::set<std::pair<int, int>> UsedNets() {
  std::set<std::pair<int, int>> used;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return used;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    const uint32_t address =
        ntohl(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr);
    if (address >> 24 == 10) used.insert({address >> 16 & 255, address >> 8 & 255});
  }
  freeifaddrs(all);
  return used;
}

bool Exists(const char* program) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    if (access(absl::StrCat(folder, program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

absl::optional<std::string> Network::Unable() {
  if (geteuid() != 0) return "needs root, for network namespaces";
  for (const char* program : {"ip", "tc", "nft"}) {
    if (!Exists(program)) return absl::StrCat("needs the program ", program, ": run `./dev setup`");
  }
  return absl::nullopt;
}

absl::StatusOr<std::unique_ptr<Network>> Network::Create(int hosts) {
  const std::set<std::pair<int, int>> used = UsedNets();
  std::pair<int, int> net = {77, getpid() & 255};
  while (used.count(net) > 0)
    net = {net.first + (net.second == 255 ? 1 : 0), (net.second + 1) & 255};
  std::unique_ptr<Network> network(
      new Network(hosts, absl::StrCat(getpid() % 100'000),
                  absl::StrCat("10.", net.first, ".", net.second, ".")));
  CAPSTAN_RETURN_IF_ERROR(network->Make());
  return network;
}

absl::Status Network::Make() {
  CAPSTAN_RETURN_IF_ERROR(Run({"ip", "link", "add", Bridge(), "type", "bridge"}));
  CAPSTAN_RETURN_IF_ERROR(
      Run({"ip", "address", "add", absl::StrCat(own_address(), "/24"), "dev", Bridge()}));
  CAPSTAN_RETURN_IF_ERROR(Run({"ip", "link", "set", Bridge(), "up"}));
  for (int host = 0; host < hosts_; ++host) {
    const std::string name = Namespace(host);
    CAPSTAN_RETURN_IF_ERROR(Run({"ip", "netns", "add", name}));
    CAPSTAN_RETURN_IF_ERROR(Run({"ip", "link", "add", Outer(host), "type", "veth", "peer", "name",
                                 Inner(host), "netns", name}));
    CAPSTAN_RETURN_IF_ERROR(Run({"ip", "link", "set", Outer(host), "master", Bridge(), "up"}));
    CAPSTAN_RETURN_IF_ERROR(Run({"ip", "-n", name, "address", "add",
                                 absl::StrCat(address(host), "/24"), "dev", Inner(host)}));
    CAPSTAN_RETURN_IF_ERROR(Run({"ip", "-n", name, "link", "set", Inner(host), "up"}));
    CAPSTAN_RETURN_IF_ERROR(Run({"ip", "-n", name, "link", "set", "lo", "up"}));
  }
  return absl::OkStatus();
}

Network::~Network() {
  for (int host = 0; host < hosts_; ++host) {
    StopRelay(host);
    (void)Run({"ip", "link", "delete", Outer(host)});
    (void)Run({"ip", "netns", "delete", Namespace(host)});
  }
  (void)Run({"ip", "link", "delete", Bridge()});
}

std::vector<std::string> Network::On(int host) const {
  return {"/usr/bin/env", "ip", "netns", "exec", Namespace(host)};
}

absl::Status Network::Filter(int host, const std::string& rules) const {
  // Replaces the table as a whole; in a file, since nft takes it as one transaction.
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/rules";
  std::ofstream(file) << "table inet capstan\ndelete table inet capstan\n" << rules;
  std::vector<std::string> argv = On(host);
  argv.insert(argv.end(), {"nft", "-f", file});
  return Run(argv);
}

absl::Status Network::Cut(int host, Way way) {
  const std::string input =
      way == Way::kFromHost ? "" : absl::StrCat("iifname \"", Inner(host), "\" drop;");
  const std::string output =
      way == Way::kToHost ? "" : absl::StrCat("oifname \"", Inner(host), "\" drop;");
  return Filter(host, absl::StrCat("table inet capstan {\n"
                                   "chain in { type filter hook input priority 0; ",
                                   input,
                                   " }\n"
                                   "chain out { type filter hook output priority 0; ",
                                   output, " }\n}\n"));
}

absl::Status Network::Lose(int host, int percent) {
  // nft wants a bound below the modulus, so that 100 % is a rule of its own.
  const std::string lose =
      percent >= 100 ? "drop;" : absl::StrCat("numgen random mod 100 < ", percent, " drop;");
  return Filter(host, absl::StrCat("table inet capstan {\n"
                                   "chain in { type filter hook input priority 0; iifname \"",
                                   Inner(host), "\" ", lose,
                                   " }\n"
                                   "chain out { type filter hook output priority 0; oifname \"",
                                   Inner(host), "\" ", lose, " }\n}\n"));
}

absl::Status Network::Limit(int host, int kilobits_per_second) {
  const std::string rate = absl::StrCat(kilobits_per_second, "kbit");
  CAPSTAN_RETURN_IF_ERROR(Run({"tc", "-n", Namespace(host), "qdisc", "replace", "dev", Inner(host),
                               "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"}));
  return Run({"tc", "qdisc", "replace", "dev", Outer(host), "root", "tbf", "rate", rate, "burst",
              "16kb", "latency", "400ms"});
}

absl::Status Network::Delay(int host, absl::Duration delay) {
  constexpr int kPort = 9199;
  constexpr int kMark = 77;
  StopRelay(host);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "making", "a pipe");
  const UniqueFd ready(ends[0]);
  UniqueFd theirs(ends[1]);
  dev::SpawnOptions spawn;
  spawn.argv = On(host);
  const std::string relay = std::filesystem::absolute(kRelay).string();
  spawn.argv.insert(spawn.argv.end(), {relay, absl::StrCat(kPort), absl::StrCat(kMark),
                                       absl::StrCat(absl::ToInt64Milliseconds(delay))});
  spawn.environment = {"PATH=/usr/sbin:/sbin:/usr/bin:/bin"};
  spawn.descriptors = {{theirs.get(), kReadyFd}};
  spawn.output_file = "/dev/null";
  CAPSTAN_ASSIGN_OR_RETURN(dev::Child child, dev::Child::Spawn(spawn));
  theirs = UniqueFd();
  relays_.emplace(host, std::move(child));
  char byte = 0;
  if (read(ready.get(), &byte, 1) != 1) {
    return status::Error(absl::StatusCode::kInternal, "NO_RELAY", "the relay has ended");
  }
  return Filter(host, absl::StrCat("table inet capstan {\n"
                                   "chain out { type nat hook output priority -100; oifname \"",
                                   Inner(host), "\" meta mark != ", kMark,
                                   " meta l4proto tcp redirect to :", kPort, "; }\n}\n"));
}

void Network::StopRelay(int host) {
  const auto relay = relays_.find(host);
  if (relay == relays_.end()) return;
  dev::SignalProcess(relay->second.id(), SIGKILL);
  waitpid(relay->second.id().pid, nullptr, 0);
  relays_.erase(relay);
}

absl::Status Network::LimitOwn(int kilobits_per_second) {
  return Run({"tc", "qdisc", "replace", "dev", Bridge(), "root", "tbf", "rate",
              absl::StrCat(kilobits_per_second, "kbit"), "burst", "64kb", "latency", "400ms"});
}

std::string Network::SentBytes(int host) const {
  // What the bridge's end receives.
  std::ifstream in(absl::StrCat("/sys/class/net/", Outer(host), "/statistics/rx_bytes"));
  std::string digits;
  std::getline(in, digits);
  return digits;
}

absl::Status Network::Mend(int host) {
  StopRelay(host);
  CAPSTAN_RETURN_IF_ERROR(Filter(host, ""));
  // There is none unless Limit made one.
  (void)Run({"tc", "-n", Namespace(host), "qdisc", "delete", "dev", Inner(host), "root"});
  (void)Run({"tc", "qdisc", "delete", "dev", Outer(host), "root"});
  return absl::OkStatus();
}

}  // namespace capstan::integration
