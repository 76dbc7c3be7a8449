#include "libs/kube/informer/informer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/informer_metrics.h"
#include "libs/kube/informer/informer_set.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/told_order.h"
#include "libs/kube/informer/toy_api_server.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube {
namespace {

using Versions = std::map<ObjectKey, std::string>;

Versions VersionsOf(const std::map<ObjectKey, ToyApiServer::Ref>& objects) {
  Versions versions;
  for (const auto& [key, object] : objects) versions[key] = object->resource_version;
  return versions;
}
Versions VersionsOf(const std::vector<ToyApiServer::Ref>& objects) {
  Versions versions;
  for (const auto& object : objects) versions[KeyOf(*object)] = object->resource_version;
  return versions;
}

InformerOptions<Toy> Options() {
  InformerOptions<Toy> options;
  options.scope.type = ToyType();
  options.indexes["color"] = [](const Toy& toy) { return std::vector<std::string>{toy.color}; };
  return options;
}

class InformerTest : public testing::Test {
 protected:
  void Make(InformerOptions<Toy> options = Options(), InformerMetrics* metrics = nullptr) {
    informer_ = std::make_unique<Informer<Toy>>(
        std::move(options), &codec_,
        InformerDependencies{&server_, &strand_, 7, log::Logger("test", &clock_, &sink_), metrics});
    informer_->Start();
  }
  void Settle() { strand_.Advance(absl::Seconds(2)); }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  log::TestingSink sink_;
  ToyApiServer server_{3, absl::Milliseconds(5), &strand_};
  ToyCodec codec_;
  std::unique_ptr<Informer<Toy>> informer_;
};

TEST_F(InformerTest, FollowsTheServerAndTellsHandlersWheneverTheyCome) {
  server_.Write("a", "red");
  server_.Write("b", "blue");
  Make();
  ToldOrder early(&server_), late(&server_);
  int initial = 0, synced = 0;
  const auto first =
      informer_->AddHandler(&strand_, {[&](const CacheChange<Toy>& change, bool is_initial) {
                                         early.OnChange(change);
                                         initial += is_initial ? 1 : 0;
                                       },
                                       [&] { ++synced; }});
  EXPECT_FALSE(informer_->synced());
  Settle();
  EXPECT_TRUE(informer_->AwaitSynced(absl::ZeroDuration()).ok());
  EXPECT_EQ(initial, 2);
  EXPECT_EQ(synced, 1);
  EXPECT_TRUE(first->synced());
  server_.Write("b", "red");
  Settle();
  EXPECT_EQ(initial, 2);
  EXPECT_EQ(informer_->ByIndex("color", "red").size(), 2u);
  EXPECT_EQ(informer_->Get("default", "b")->color, "red");
  EXPECT_EQ(informer_->Get("default", "c"), nullptr);
  auto second = informer_->AddHandler(
      &strand_, {[&](const CacheChange<Toy>& change, bool) { late.OnChange(change); }, nullptr});
  server_.Delete("a");
  Settle();
  EXPECT_EQ(early.versions(), VersionsOf(server_.objects()));
  EXPECT_EQ(late.versions(), early.versions());
  EXPECT_EQ(early.failure(), "");
  EXPECT_EQ(late.failure(), "");
  second = nullptr;
  const int changes = late.changes();
  server_.Write("a", "green");
  Settle();
  EXPECT_EQ(late.changes(), changes) << "a handler ran after its subscription had ended";
  EXPECT_EQ(early.versions(), VersionsOf(server_.objects()));
}

TEST_F(InformerTest, ListsInPagesWhereTheServerKnowsNoWatchLists) {
  server_.set_watch_list(false);
  for (int i = 0; i < 25; ++i) server_.Write(absl::StrCat("toy", i), "red");
  InformerOptions<Toy> options = Options();
  options.list_watch.reflector.page_limit = 10;
  Make(std::move(options));
  Settle();
  EXPECT_EQ(VersionsOf(informer_->List()), VersionsOf(server_.objects()));
  EXPECT_EQ(server_.targets()[1], "/apis/example.org/v1/toys?limit=10");
  EXPECT_EQ(server_.targets()[3], "/apis/example.org/v1/toys?limit=10&continue=25.20");
  EXPECT_TRUE(absl::StrContains(server_.targets()[4], "watch=true&allowWatchBookmarks=true&"));
}

TEST_F(InformerTest, WhoIsRefusedEmptiesNothingAndSaysSoOnce) {
  server_.Write("a", "red");
  server_.set_answer(403);
  Make();
  strand_.Advance(absl::Minutes(5));
  const absl::Status status = informer_->AwaitSynced(absl::ZeroDuration());
  EXPECT_EQ(status::Reason(status), kNotSynced);
  EXPECT_TRUE(absl::StrContains(status.message(), "HTTP 403; let the account list and watch"));
  EXPECT_GT(informer_->stats().failures, 5u);
  EXPECT_EQ(sink_.records().size(), 1u);
  server_.set_answer(0);
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(informer_->List().size(), 1u);
  EXPECT_EQ(sink_.records().size(), 2u);
  server_.set_answer(404);
  strand_.Advance(absl::Hours(1));
  EXPECT_EQ(informer_->List().size(), 1u) << "who is blind takes everything for gone";
  EXPECT_FALSE(informer_->stats().failure.ok());
}

TEST_F(InformerTest, RefusesWhatIsTooLargeAndWhatIsNoApi) {
  server_.set_watch_list(false);
  for (int i = 0; i < 50; ++i) server_.Write(absl::StrCat("toy", i), "red");
  InformerOptions<Toy> options = Options();
  options.list_watch.max_list_bytes = 1000;
  Make(std::move(options));
  Settle();
  EXPECT_EQ(status::Reason(informer_->stats().failure), kListTooLarge);
  server_.set_content_type("text/html");
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(status::Reason(informer_->stats().failure), kUnexpectedContent);
}

TEST_F(InformerTest, FiltersTransformsAndSelects) {
  InformerOptions<Toy> options = Options();
  options.scope.ns = "default";
  options.scope.label_selector = "color=red";
  options.filters.accepts = [](const Toy& toy) { return toy.owner != "hidden"; };
  options.filters.transform = [](ToyApiServer::Ref toy) {
    auto less = std::make_shared<Toy>(*toy);
    less->owner = "dropped";
    return ToyApiServer::Ref(less);
  };
  server_.Write("a", "red", "someone");
  server_.Write("b", "red", "hidden");
  server_.Write("c", "blue");
  Make(std::move(options));
  ToldOrder told(&server_);
  const auto subscription = informer_->AddHandler(
      &strand_, {[&](const CacheChange<Toy>& change, bool) { told.OnChange(change); }, nullptr});
  Settle();
  ASSERT_EQ(informer_->List().size(), 1u);
  EXPECT_EQ(informer_->List()[0]->owner, "dropped");
  server_.Write("a", "red", "hidden");
  server_.Write("c", "red");
  Settle();
  ASSERT_EQ(informer_->List().size(), 1u);
  EXPECT_EQ(informer_->List()[0]->name, "c");
  server_.Write("c", "blue");
  Settle();
  EXPECT_EQ(informer_->List().size(), 0u);
  EXPECT_EQ(told.failure(), "");
  EXPECT_TRUE(absl::StartsWith(server_.targets()[0],
                               "/apis/example.org/v1/namespaces/default/toys?labelSelector=color"
                               "%3dred&watch=true"));
}

TEST_F(InformerTest, ReadsShowOwnWritesAtOnce) {
  server_.Write("b", "red");
  const auto doomed = server_.Write("d", "red");
  Make();
  Settle();
  informer_->Expect(server_.Write("a", "blue"));
  informer_->Expect(server_.Write("b", "blue"));
  informer_->Expect(server_.Write("e", "red"));
  server_.Delete("d");
  informer_->ExpectGone(KeyOf(*doomed), doomed->uid);
  EXPECT_EQ(VersionsOf(informer_->List()), VersionsOf(server_.objects()));
  EXPECT_EQ(informer_->ByIndex("color", "blue").size(), 2u);
  EXPECT_EQ(informer_->ByIndex("color", "red").size(), 1u);
  EXPECT_EQ(informer_->Get("default", "b")->color, "blue");
  EXPECT_EQ(informer_->Get("default", "d"), nullptr);
  EXPECT_EQ(informer_->stats().own_writes, 4u);
  Settle();
  EXPECT_EQ(informer_->stats().own_writes, 0u);
  EXPECT_EQ(VersionsOf(informer_->List()), VersionsOf(server_.objects()));
}

TEST_F(InformerTest, NothingRunsAfterStop) {
  server_.Write("a", "red");
  Make();
  ToldOrder told(&server_);
  const auto subscription = informer_->AddHandler(
      &strand_, {[&](const CacheChange<Toy>& change, bool) { told.OnChange(change); }, nullptr});
  Settle();
  server_.Write("a", "blue");
  strand_.Advance(absl::Milliseconds(3));
  informer_->Stop();
  const int changes = told.changes();
  const size_t requests = server_.targets().size();
  server_.Write("a", "green");
  strand_.Advance(absl::Hours(1));
  EXPECT_EQ(told.changes(), changes);
  EXPECT_EQ(server_.targets().size(), requests);
  EXPECT_NE(informer_->Get("default", "a"), nullptr);
  const auto late = informer_->AddHandler(
      &strand_, {[&](const CacheChange<Toy>& change, bool) { told.OnChange(change); }, nullptr});
  Settle();
  EXPECT_EQ(told.changes(), changes);
  EXPECT_EQ(informer_->AwaitSynced(absl::ZeroDuration()).code(), absl::StatusCode::kOk);
}

TEST_F(InformerTest, TellsAgainWhoAsksForIt) {
  for (const char* name : {"a", "b"}) server_.Write(name, "red");
  Make();
  std::map<std::string, int> again;
  int changes = 0;
  Handler<Toy> handler;
  handler.on_change = [&](const CacheChange<Toy>& change, bool initial) {
    ++changes;
    if (initial) return;
    EXPECT_EQ(change.before, change.after);
    ++again[change.after->name];
  };
  handler.resync = absl::Minutes(10);
  auto asking = informer_->AddHandler(&strand_, std::move(handler));
  ToldOrder told(&server_);
  const auto other = informer_->AddHandler(
      &strand_, {[&](const CacheChange<Toy>& change, bool) { told.OnChange(change); }, nullptr});
  strand_.Advance(absl::Minutes(9));
  EXPECT_EQ(changes, 2);
  strand_.Advance(absl::Minutes(22));
  EXPECT_EQ(again, (std::map<std::string, int>{{"a", 3}, {"b", 3}}));
  EXPECT_EQ(told.changes(), 2);
  EXPECT_EQ(told.failure(), "");
  asking = nullptr;
  strand_.Advance(absl::Hours(1));
  EXPECT_EQ(changes, 8);
}

TEST_F(InformerTest, CountsWhatItDoes) {
  metrics::Registry registry("test");
  InformerMetrics metrics(&registry, Options().scope);
  server_.Write("a", "red");
  Make(Options(), &metrics);
  Settle();
  server_.Write("b", "red");
  Settle();
  const std::string text = registry.RenderText();
  for (const char* line : {"objects{resource=\"toys\",scope=\"toys.example.org\"} 2",
                           "events_total{resource=\"toys\",scope=\"toys.example.org\"} 1",
                           "lists_total{resource=\"toys\",scope=\"toys.example.org\"} 1"}) {
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat("capstan_test_kube_informer_", line))) << text;
  }
  EXPECT_EQ(informer_->stats().events, 1u);
  EXPECT_EQ(informer_->stats().objects, 2u);
  informer_ = nullptr;
}

TEST_F(InformerTest, ASetSharesInformersByScope) {
  server_.Write("a", "red");
  InformerSet set({&server_, &strand_, 1, absl::nullopt, nullptr});
  Informer<Toy>* const toys = *set.Get(Options(), &codec_);
  InformerOptions<Toy> same;
  same.scope.type = ToyType();
  EXPECT_EQ(*set.Get(same, &codec_), toys);
  EXPECT_EQ(status::Reason(set.Get(Options(), &codec_).status()), kInformerTaken);
  set.Start();
  InformerOptions<Toy> red = Options();
  red.scope.label_selector = "color=red";
  Informer<Toy>* const reds = *set.Get(red, &codec_);
  EXPECT_NE(reds, toys);
  EXPECT_FALSE(set.synced());
  Settle();
  EXPECT_TRUE(set.AwaitSynced(absl::ZeroDuration()).ok());
  EXPECT_EQ(reds->List().size(), 1u);
  set.Stop();
  server_.Write("a", "blue");
  Settle();
  EXPECT_EQ(toys->Get("default", "a")->color, "red");
}

// Whatever breaks on the way, handlers are told states in order and end with the server's.
TEST(InformerPropertyTest, HandlersNeverGoBackAndEndAtTheServersState) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SimulatedClock clock;
    SimulatedStrand strand(&clock);
    Random random(seed);
    ToyApiServer server(seed, absl::Milliseconds(1 + random.Below(400)), &strand);
    server.set_watch_list(random.OneIn(2));
    server.set_faults(true);
    const ToyCodec codec(/*compact=*/seed % 3 != 0);
    InformerOptions<Toy> options = Options();
    options.list_watch.reflector.page_limit = static_cast<int64_t>(random.Below(4));
    Informer<Toy> informer(options, &codec, {&server, &strand, seed, absl::nullopt, nullptr});
    informer.Start();
    // The slow one has a strand that seldom runs.
    SimulatedStrand slow_strand(&clock);
    ToldOrder told(&server), slow(&server);
    std::vector<std::unique_ptr<Subscription<Toy>>> subscriptions;
    subscriptions.push_back(informer.AddHandler(
        &strand, {[&](const CacheChange<Toy>& change, bool) { told.OnChange(change); }, nullptr}));
    const auto step = [&] {
      const std::string name = absl::StrCat("toy", random.Below(6));
      switch (random.Below(12)) {
        case 0:
          if (subscriptions.size() < 2) {
            subscriptions.push_back(informer.AddHandler(
                &slow_strand,
                {[&](const CacheChange<Toy>& change, bool) { slow.OnChange(change); }, nullptr}));
          }
          break;
        case 1:
          slow_strand.RunReady();
          break;
        case 2:
          if (random.OneIn(4)) server.Compact();
          break;
        case 3:
        case 4:
          if (const auto gone = server.Delete(name); gone != nullptr && random.OneIn(2)) {
            informer.ExpectGone(KeyOf(*gone), gone->uid);
            ASSERT_EQ(informer.Get("default", name), nullptr);
          }
          break;
        case 5:
        case 6:
        case 7: {
          const auto written = server.Write(name, random.OneIn(2) ? "red" : "blue");
          if (random.OneIn(2)) {
            informer.Expect(written);
            ASSERT_EQ(informer.Get("default", name)->resource_version, written->resource_version);
          }
          break;
        }
        default:
          strand.Advance(absl::Milliseconds(random.Below(random.OneIn(10) ? 20000 : 500)));
      }
    };
    for (int i = 0; i < 150; ++i) {
      step();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    }
    server.set_faults(false);
    strand.Advance(absl::Minutes(3));
    slow_strand.RunReady();
    const Versions expected = VersionsOf(server.objects());
    ASSERT_EQ(VersionsOf(informer.List()), expected) << "seed " << seed;
    ASSERT_EQ(told.failure(), "") << "seed " << seed;
    ASSERT_EQ(slow.failure(), "") << "seed " << seed;
    ASSERT_EQ(told.versions(), expected) << "seed " << seed;
    if (subscriptions.size() > 1) {
      ASSERT_EQ(slow.versions(), expected) << "seed " << seed;
    }
    // What a list jumped over is given up by age, and freed by the next event.
    server.Write("last", "red");
    strand.Advance(absl::Seconds(10));
    ASSERT_EQ(informer.stats().own_writes, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace capstan::kube
