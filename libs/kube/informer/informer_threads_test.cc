// Informers on real threads; under tsan.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/told_order.h"
#include "libs/kube/informer/toy_api_server.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);

std::map<ObjectKey, std::string> Versions(const std::map<ObjectKey, ToyApiServer::Ref>& objects) {
  std::map<ObjectKey, std::string> versions;
  for (const auto& [key, object] : objects) versions[key] = object->resource_version;
  return versions;
}

InformerOptions<Toy> QuickOptions() {
  InformerOptions<Toy> options;
  options.scope.type = ToyType();
  options.indexes["color"] = [](const Toy& toy) { return std::vector<std::string>{toy.color}; };
  options.list_watch.reflector.initial_backoff = absl::Milliseconds(1);
  options.list_watch.reflector.max_backoff = absl::Milliseconds(5);
  options.list_watch.reflector.page_limit = 3;
  return options;
}

// Told of the last write, which carries a colour of its own.
class Collector {
 public:
  explicit Collector(const ToyApiServer* server) : order(server) {}

  Handler<Toy> handler() {
    return {[this](const CacheChange<Toy>& change, bool) {
              order.OnChange(change);
              if (change.after != nullptr && change.after->color == "last") last.Notify();
            },
            nullptr};
  }

  ToldOrder order;
  absl::Notification last;
};

TEST(InformerThreadsTest, HandlersReadersAndWritersGoTheirOwnWays) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const SystemClock clock;
    ToyCodec codec;
    ThreadStrand server_strand("server", &clock);
    ToyApiServer server(seed, absl::Microseconds(200), &server_strand);
    ThreadStrand strand("informer", &clock), writers("writer", &clock), readers("reader", &clock),
        blocked("blocked", &clock), quick("quick", &clock);
    server.set_watch_list(seed % 2 == 0);
    server.set_faults(true);
    Informer<Toy> informer(QuickOptions(), &codec,
                           {&server, &strand, seed, absl::nullopt, nullptr});
    informer.Start();
    Collector told(&server), slow(&server);
    absl::Notification release;
    Handler<Toy> slow_handler = slow.handler();
    slow_handler.on_change = [&, inner = slow_handler.on_change](const CacheChange<Toy>& change,
                                                                 bool initial) {
      release.WaitForNotificationWithTimeout(kDeadline);
      inner(change, initial);
    };
    const auto first = informer.AddHandler(&quick, told.handler());
    const auto second = informer.AddHandler(&blocked, std::move(slow_handler));
    absl::Notification written;
    writers.Post([&] {
      Random random(seed);
      for (int i = 0; i < 200; ++i) {
        const std::string name = absl::StrCat("toy", random.Below(8));
        if (random.OneIn(4)) {
          server.Delete(name);
        } else {
          informer.Expect(server.Write(name, random.OneIn(2) ? "red" : "blue"));
        }
        if (random.OneIn(50)) server.Compact();
      }
      server.set_faults(false);
      server.Write("end", "last");
      written.Notify();
    });
    readers.Post([&] {
      while (!written.HasBeenNotified()) {
        informer.List();
        informer.ByIndex("color", "red");
        informer.Get("default", "toy1");
        informer.stats();
        // Handlers come and go.
        const auto passing =
            informer.AddHandler(&quick, {[](const CacheChange<Toy>&, bool) {}, nullptr});
      }
    });
    ASSERT_TRUE(written.WaitForNotificationWithTimeout(kDeadline));
    ASSERT_TRUE(told.last.WaitForNotificationWithTimeout(kDeadline))
        << "a handler that blocks holds up the others, seed " << seed;
    EXPECT_FALSE(slow.last.HasBeenNotified());
    release.Notify();
    ASSERT_TRUE(slow.last.WaitForNotificationWithTimeout(kDeadline));
    ASSERT_TRUE(informer.AwaitSynced(kDeadline).ok());
    // What the handlers were told last may still be followed by other objects of the same list.
    while (first->depth() + second->depth() > 0) {
      absl::Notification turn;
      quick.Post([&] { turn.Notify(); });
      turn.WaitForNotification();
    }
    readers.Stop();
    informer.Stop();
    EXPECT_EQ(told.order.failure(), "") << "seed " << seed;
    EXPECT_EQ(slow.order.failure(), "") << "seed " << seed;
    EXPECT_EQ(told.order.versions(), Versions(server.objects())) << "seed " << seed;
    EXPECT_EQ(slow.order.versions(), Versions(server.objects())) << "seed " << seed;
    server_strand.Stop();
  }
}

TEST(InformerThreadsTest, NothingRunsOnceStopHasReturned) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const SystemClock clock;
    ToyCodec codec;
    ThreadStrand server_strand("server", &clock);
    ToyApiServer server(seed, absl::ZeroDuration(), &server_strand);
    ThreadStrand strand("informer", &clock), handlers("handler", &clock);
    for (int i = 0; i < 20; ++i) server.Write(absl::StrCat("toy", i), "red");
    auto informer = std::make_unique<Informer<Toy>>(
        QuickOptions(), &codec,
        InformerDependencies{&server, &strand, seed, absl::nullopt, nullptr});
    informer->Start();
    absl::Notification begun;
    // Not atomic: tsan finds whatever runs after Stop.
    int calls = 0;
    const auto subscription = informer->AddHandler(&handlers, {[&](const CacheChange<Toy>&, bool) {
                                                                 if (++calls == 1) begun.Notify();
                                                               },
                                                               nullptr});
    ASSERT_TRUE(begun.WaitForNotificationWithTimeout(kDeadline));
    for (int i = 0; i < 20; ++i) server.Write(absl::StrCat("toy", i), "blue");
    informer->Stop();
    ++calls;
    informer = nullptr;
    server_strand.Stop();
  }
}

}  // namespace
}  // namespace capstan::kube
