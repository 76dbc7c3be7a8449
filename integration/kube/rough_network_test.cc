// Informers of a real API server over connections that tear and are slow.
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/kube/followed.h"
#include "integration/kube/numbered_object.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_cluster.h"
#include "integration/kube/rough_proxy.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/resources.h"
#include "libs/strand/thread_strand.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

using Map = core_v1::ConfigMap;

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr int kObjects = 200;

// Writes while an informer follows over `roughness`; it ends with what the server has. Returns what
// the informer counted, and how often it was cut off.
struct Followings {
  InformerStats stats;
  int cuts = 0;
};
Followings FollowOver(RoughProxy::Roughness roughness) {
  Followings followings;
  const auto cluster = testenv::KubernetesCluster::Shared();
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  if (!cluster.ok()) return followings;
  const std::string ns = (*cluster)->CreateNamespace().value();
  const ClientConfig config = AdminConfig(**cluster).value();
  RealClient client(config);
  const std::string url = (*cluster)->url();
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(url.substr(url.rfind(':') + 1), &port)) << url;
  RoughProxy proxy(static_cast<uint16_t>(port), roughness);
  ClientConfig rough = config;
  rough.server = absl::StrCat("https://127.0.0.1:", proxy.port());
  const auto transport = MakeTransport(rough).value();

  ThreadStrand strand("kube", &transport->clock);
  InformerOptions<Map> options;
  options.scope.type = kConfigMaps.type();
  options.scope.ns = ns;
  options.list_watch.reflector.max_backoff = absl::Milliseconds(100);
  const auto codec = MakeCodec<Map>(kConfigMaps.type());
  Informer<Map> informer(options, codec.get(),
                         {transport->transport.get(), &strand, 1, absl::nullopt, nullptr});
  Followed<Map> followed(&informer, &strand);
  informer.Start();
  const absl::Status synced = informer.AwaitSynced(kLong);
  EXPECT_TRUE(synced.ok()) << synced;
  const auto maps = client.Of(kConfigMaps);
  for (int64_t number = 1; number <= 3 * kObjects; ++number) {
    const std::string name = absl::StrCat("m-", number % kObjects);
    const auto now = maps.Get(ns, name);
    absl::Status status;
    if (now.ok() && number % 7 == 0) {
      status = maps.Delete(ns, name).status();
    } else if (now.ok()) {
      status = maps.Update(Numbered(**now, number)).status();
    } else {
      status = maps.Create(Numbered(NewObject<Map>(ns, name), number)).status();
    }
    EXPECT_TRUE(status.ok()) << status;
  }
  const absl::Time deadline = absl::Now() + kLong;
  std::string wrong;
  do {
    absl::Status status;
    auto truth = Truth(maps, &status);
    EXPECT_TRUE(status.ok()) << status;
    for (auto one = truth.begin(); one != truth.end();) {
      one = one->first.ns == ns ? std::next(one) : truth.erase(one);
    }
    wrong = followed.Difference(truth);
  } while (!wrong.empty() && absl::Now() < deadline);
  EXPECT_EQ(wrong, "");
  followings.stats = informer.stats();
  followings.cuts = proxy.cuts();
  informer.Stop();
  return followings;
}

TEST(RoughNetworkTest, TornWatchesLoseAndRepeatNothing) {
  const Followings followings = FollowOver({.cut_after = 20'000});
  EXPECT_GE(followings.cuts, 5);
  EXPECT_GE(followings.stats.failures, 5u);
  EXPECT_GE(followings.stats.watches, 5u);
}

TEST(RoughNetworkTest, SlowWatchesArriveWhole) {
  const Followings followings = FollowOver({.bytes_each_millisecond = 64});
  EXPECT_EQ(followings.cuts, 0);
  EXPECT_GE(followings.stats.events, 100u);
}

}  // namespace
}  // namespace capstan::kube::testing
