// How long Nodes wait for a version when the Site's link is the narrow one, with and without taking
// it from each other. Reports; says why not where hosts can't be made.
//
//   ./dev bench peers
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "integration/peers/peer_hosts.h"

namespace capstan::integration {
namespace {

constexpr int kHosts = 3;
constexpr int kRuns = 3;
constexpr int64_t kMebibytes = 64;
constexpr int kSiteKilobits = 200'000;

absl::Status Measure(PeerHosts& hosts, bool peers) {
  double least = 1e9;
  double most = 0;
  double sum = 0;
  int64_t sent = 0;
  for (int run = 0; run < kRuns; ++run) {
    const int64_t before = hosts.SiteSent();
    for (int host = 0; host < kHosts; ++host) {
      const absl::Status begun = hosts.Fetch(host, peers);
      if (!begun.ok()) return begun;
    }
    double last = 0;
    for (int host = 0; host < kHosts; ++host) {
      const auto fetched = hosts.Await(host);
      if (!fetched.ok()) return fetched.status();
      last = std::max(last, fetched->seconds);
    }
    sent += hosts.SiteSent() - before;
    for (int host = 0; host < kHosts; ++host) hosts.Forget(host);
    least = std::min(least, last);
    most = std::max(most, last);
    sum += last;
  }
  const std::string conditions = absl::StrCat(
      kMebibytes, " MiB to ", kHosts, " network namespaces at once, the Site's link held to ",
      kSiteKilobits / 1000, " Mbit/s by tbf, mTLS, until the last is whole");
  const char* how = peers ? "with_peers" : "without_peers";
  std::printf(
      "{\"name\":\"peers.last_node_ready_s.%s\",\"value\":%.3f,\"unit\":\"s\",\"better\":"
      "\"lower\",\"spread\":[%.3f,%.3f],\"runs\":%d,\"conditions\":\"%s\"}\n",
      how, sum / kRuns, least, most, kRuns, conditions.c_str());
  std::printf(
      "{\"name\":\"peers.site_bytes_per_version_byte.%s\",\"value\":%.3f,\"unit\":\"1\","
      "\"better\":\"lower\",\"runs\":%d,\"conditions\":\"%s\"}\n",
      how, static_cast<double>(sent) / static_cast<double>(kRuns * (kMebibytes << 20)), kRuns,
      conditions.c_str());
  std::fflush(stdout);
  return absl::OkStatus();
}

int Run() {
  if (const auto unable = PeerHosts::Unable(); unable.has_value()) {
    std::fprintf(stderr, "not measured: %s\n", unable->c_str());
    return 0;
  }
  auto hosts = PeerHosts::Start(kHosts, kMebibytes << 20);
  absl::Status status = hosts.status();
  if (status.ok()) status = (*hosts)->network().LimitOwn(kSiteKilobits);
  for (const bool peers : {false, true}) {
    if (status.ok()) status = Measure(**hosts, peers);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace capstan::integration

int main() { return capstan::integration::Run(); }
