#include "integration/kube/big_list_exercise.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::kube::testing {
namespace {

using Map = core_v1::ConfigMap;

constexpr absl::Duration kLong = absl::Minutes(5);
constexpr int kCreators = 16;
constexpr int kPage = 1000;
// What a small ConfigMap may cost the process, with the buffers that it came through.
constexpr size_t kBytesEach = 4096;
constexpr size_t kBytesBeside = size_t{64} << 20;
// The namespace has one that is not ours.
constexpr char kOurs[] = "metadata.name!=kube-root-ca.crt";

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t size = 0;
  size_t resident = 0;
  statm >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::string NameOf(size_t i) { return absl::StrCat("m-", i); }

// A client of a server, with the objects made so far.
class BigList {
 public:
  BigList(Transport* transport, const Clock* clock, std::string ns)
      : transport_(transport), ns_(std::move(ns)), strand_("client", clock) {
    ClientOptions options;
    options.attempt_timeout = kLong;
    options.total_timeout = kLong;
    client_ = std::make_unique<Client>(transport_, &strand_, &random_, options);
  }
  ~BigList() {
    strand_.Stop();
    client_ = nullptr;
  }

  BlockingResource<Map> Maps() {
    return BlockingResource<Map>(Resource<Map>(client_.get(), kConfigMaps));
  }

  // Lists `count` in three ways; the time of each.
  std::vector<absl::Duration> List(size_t count) {
    return {Measured("in pages", count, [&] { return Listed(kPage); }),
            Measured("at once", count, [&] { return Listed(0); }),
            Measured("as a watch list", count, [&] { return WatchListed(); })};
  }

 private:
  using Objects = std::vector<std::shared_ptr<const Map>>;

  absl::Duration Measured(const char* how, size_t count, const std::function<Objects()>& list) {
    ::malloc_trim(0);
    const size_t before = ResidentBytes();
    const absl::Time start = absl::Now();
    const Objects objects = list();
    const absl::Duration took = absl::Now() - start;
    const size_t after = ResidentBytes();
    const size_t grown = after > before ? after - before : 0;
    std::set<std::string> names;
    for (const auto& object : objects) names.insert(object->metadata().name());
    EXPECT_EQ(objects.size(), count) << how;
    EXPECT_EQ(names.size(), count) << how;
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(names.count(NameOf(i)), 1u) << how << " " << i;
    EXPECT_LE(grown, kBytesBeside + count * kBytesEach) << how;
    std::cout << count << " " << how << ": " << absl::ToInt64Milliseconds(took) << " ms, "
              << (grown >> 20) << " MiB\n";
    return took;
  }

  Objects Listed(int limit) {
    ListOptions options;
    options.field_selector = kOurs;
    options.limit = limit;
    auto page = Maps().ListAll(ns_, options);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? std::move(page->items) : Objects();
  }

  Objects WatchListed() {
    InformerOptions<Map> options;
    options.scope.type = kConfigMaps.type();
    options.scope.ns = ns_;
    options.scope.field_selector = kOurs;
    options.list_watch.reflector.watch_list = true;
    const auto codec = MakeCodec<Map>(kConfigMaps.type());
    Informer<Map> informer(options, codec.get(), {transport_, &strand_, 1, absl::nullopt, nullptr});
    informer.Start();
    const absl::Status synced = informer.AwaitSynced(kLong);
    EXPECT_TRUE(synced.ok()) << synced;
    EXPECT_EQ(informer.stats().failures, 0u) << informer.stats().failure;
    Objects objects = informer.List();
    informer.Stop();
    return objects;
  }

  Transport* const transport_;
  const std::string ns_;
  ThreadStrand strand_;
  Random random_{1};
  std::unique_ptr<Client> client_;
};

// A tenth first, then all: ten times as many take about ten times as long.
void Exercise(BigList* list, size_t objects,
              const std::function<void(size_t from, size_t to)>& make) {
  const size_t few = objects / 10;
  make(0, few);
  const std::vector<absl::Duration> of_few = list->List(few);
  make(few, objects);
  const std::vector<absl::Duration> of_all = list->List(objects);
  for (size_t i = 0; i < of_all.size(); ++i) {
    // Others use the machine too.
    EXPECT_LT(of_all[i], 40 * of_few[i] + absl::Seconds(5)) << i;
  }
}

}  // namespace

void ExerciseBigListOfServer(testenv::KubernetesCluster* cluster, size_t objects) {
  const auto config = AdminConfig(*cluster);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto transport = MakeTransport(*config);
  ASSERT_TRUE(transport.ok()) << transport.status();
  const auto ns = cluster->CreateNamespace();
  ASSERT_TRUE(ns.ok()) << ns.status();
  BigList list((*transport)->transport.get(), &(*transport)->clock, *ns);
  Exercise(&list, objects, [&](size_t from, size_t to) {
    const absl::Time start = absl::Now();
    std::atomic<size_t> next{from};
    std::vector<std::thread> creators;
    for (int i = 0; i < kCreators; ++i) {
      creators.emplace_back([&] {
        for (size_t one; (one = next++) < to;) {
          Map map;
          map.mutable_metadata()->set_name(NameOf(one));
          map.mutable_metadata()->set_namespace_(*ns);
          (*map.mutable_data())["k"] = "v";
          const auto made = list.Maps().Create(map);
          EXPECT_TRUE(made.ok()) << made.status();
        }
      });
    }
    for (std::thread& creator : creators) creator.join();
    std::cout << to - from << " made: " << absl::ToInt64Milliseconds(absl::Now() - start)
              << " ms\n";
  });
}

void ExerciseBigListOfFake(size_t objects) {
  const SystemClock clock;
  FakeApiServerOptions options;
  options.converter = &BuiltinConverter();
  FakeApiServer server(options, &clock);
  const std::unique_ptr<Transport> transport = server.NewTransport();
  BigList list(transport.get(), &clock, "default");
  Exercise(&list, objects, [&](size_t from, size_t to) {
    server.Use([&](FakeApiState& state) {
      for (size_t i = from; i < to; ++i) {
        const auto made =
            state.Create(*state.FindType("", "v1", "configmaps"), "default",
                         {{"metadata", {{"name", NameOf(i)}}}, {"data", {{"k", "v"}}}},
                         {.field_manager = "test"});
        EXPECT_TRUE(made.ok());
      }
    });
  });
}

}  // namespace capstan::kube::testing
