#include "integration/kube/informer_exercise.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/kube/exercise_reconcilers.h"
#include "integration/kube/followed.h"
#include "integration/kube/numbered_object.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/informer_set.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/reconciler/reconciler.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::testing {
namespace {

using Part = testenv::KubernetesCluster::Part;

constexpr absl::Duration kLong = absl::Minutes(2);
constexpr int kWriters = 4;
constexpr int kNodesEach = 10;
// Of each namespace. With what the reconcilers make, 10,000 objects in all.
constexpr int kMaps = 900;
constexpr int kPodsEach = 50;
constexpr int kWidgetsEach = 50;
constexpr int kOwners = 15;
constexpr int kMostItems = 4;
// At least, between two faults.
constexpr int kWrites = 250;

std::string MapName(uint64_t i) { return absl::StrCat("m-", i); }
std::string PodName(uint64_t i) { return absl::StrCat("p-", i); }
std::string WidgetName(uint64_t i) { return absl::StrCat("w-", i); }
std::string NodeName(uint64_t i) { return absl::StrCat("n-", i); }
Labels ShardOf(uint64_t i) { return {{"shard", absl::StrCat(i % 5)}}; }

void InParallel(int threads, const std::function<void(int thread)>& run) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(run, i);
  for (std::thread& thread : all) thread.join();
}

// The namespaces of all exercises on a cluster, whose objects stay from one to the next.
const std::vector<std::string>& Namespaces(testenv::KubernetesCluster* cluster) {
  static auto* const namespaces = [cluster] {
    auto* const made = new std::vector<std::string>();
    for (int i = 0; i < 10; ++i) made->push_back(cluster->CreateNamespace().value());
    return made;
  }();
  return *namespaces;
}

class Exercise {
 public:
  Exercise(testenv::KubernetesCluster* cluster, uint64_t seed)
      : cluster_(cluster),
        seed_(absl::StrCat(seed)),
        random_(seed),
        config_(AdminConfig(*cluster).value()),
        client_(config_),
        namespaces_(Namespaces(cluster)),
        watcher_(MakeTransport(config_).value()),
        strand_("kube", &watcher_->clock),
        handlers_("handlers", &watcher_->clock),
        informers_({watcher_->transport.get(), &strand_, seed, absl::nullopt, nullptr}) {}

  void Run() {
    const absl::Status served = ServeWidgets(&client_);
    ASSERT_TRUE(served.ok()) << served;
    const absl::Status filled = Fill();
    ASSERT_TRUE(filled.ok()) << filled;
    Passed("filled");
    FollowAll();
    ASSERT_EQ(informers_.informers().size(), 50u);
    AddReconcilers();
    ASSERT_EQ(reconcilers_.size(), 20u);
    for (const auto& reconciler : reconcilers_) reconciler->Start();
    informers_.Start();
    const absl::Status synced = informers_.AwaitSynced(kLong);
    ASSERT_TRUE(synced.ok()) << synced;
    Passed("synced");

    std::vector<std::thread> writers;
    for (int i = 0; i < kWriters; ++i) {
      writers.emplace_back([this, i, random = Random(random_.Next())]() mutable {
        while (!stop_) Wrote(WriteOne(i, &random));
      });
    }
    // Each of the faults once, in an order of the seed's.
    std::vector<int> faults = {0, 1, 2, 3, 4};
    for (size_t i = faults.size(); i > 1; --i) std::swap(faults[i - 1], faults[random_.Below(i)]);
    for (const int fault : faults) {
      AwaitWrites(kWrites);
      Break(fault);
      Passed(absl::StrCat("fault ", fault));
    }
    AwaitWrites(kWrites);
    stop_ = true;
    for (std::thread& writer : writers) writer.join();

    Passed("written");
    Settle();
    Passed("settled");
    for (const auto& reconciler : reconcilers_) reconciler->Stop();
    Report();
    informers_.Stop();
    CleanUp();
    Passed("cleaned up");
    std::cout << "seed " << seed_ << ": " << passed_ << "\n";
  }

 private:
  template <typename T>
  Informer<T>* InformerOf(ObjectScope scope,
                          std::map<std::string, typename Cache<T>::IndexFunction> indexes = {}) {
    InformerOptions<T> options;
    codecs_.push_back(MakeCodec<T>(scope.type));
    options.scope = std::move(scope);
    options.indexes = std::move(indexes);
    // A fault lasts for seconds.
    options.list_watch.reflector.max_backoff = absl::Seconds(2);
    // Longer than a server takes to come back on a machine that has no time for it.
    options.own_writes.max_age = kLong;
    return informers_.Get<T>(options, static_cast<const Codec<T>*>(codecs_.back().get())).value();
  }

  // What was deleted by another exercise is made again.
  absl::Status Fill() {
    absl::Status status;
    const auto maps = Truth(client_.Of(kConfigMaps), &status);
    const auto pods = Truth(client_.Of(kPods), &status);
    const auto widgets = Truth(client_.Of(WidgetType()), &status);
    if (!status.ok()) return status;
    std::vector<absl::Status> statuses(8);
    std::atomic<size_t> next{0};
    InParallel(8, [&](int thread) {
      absl::Status& mine = statuses[thread];
      const auto make = [&](const auto& there, const auto& resource, const auto& object) {
        if (mine.ok() && !there.contains(KeyOf(object))) {
          mine = resource.Create(Numbered(object, ++number_)).status();
        }
      };
      for (size_t i; (i = next++) < namespaces_.size() * kMaps;) {
        const std::string& ns = namespaces_[i / kMaps];
        const size_t which = i % kMaps;
        make(maps, client_.Of(kConfigMaps),
             NewObject<core_v1::ConfigMap>(ns, MapName(which), ShardOf(which)));
        if (which < kPodsEach) {
          make(pods, client_.Of(kPods), NewObject<core_v1::Pod>(ns, PodName(which)));
        }
        if (which < kWidgetsEach) {
          make(widgets, client_.Of(WidgetType()), NewObject<DynamicObject>(ns, WidgetName(which)));
        }
        if (which < kOwners) {
          make(widgets, client_.Of(WidgetType()),
               NewObject<DynamicObject>(ns, OwnerName(which), {{"seed", seed_}}));
        }
      }
    });
    for (const absl::Status& one : statuses) status.Update(one);
    return status;
  }
  std::string OwnerName(uint64_t i) const { return absl::StrCat("s", seed_, "-owner-", i); }

  // 50 informers: 40 of a namespace, 10 of all.
  void FollowAll() {
    const ResourceType maps = kConfigMaps.type();
    const ResourceType widgets = WidgetType();
    for (const std::string& ns : namespaces_) {
      Follow<core_v1::ConfigMap>(&maps_, {maps, ns, "", ""}, {{kItemOf, &ItemOf}});
      Follow<core_v1::ConfigMap>(&selected_maps_, {maps, ns, "colour=even", ""});
      Follow<core_v1::Pod>(&pods_, {kPods.type(), ns, "", ""});
      Follow<DynamicObject>(&widgets_, {widgets, ns, "", ""});
    }
    Follow<core_v1::ConfigMap>(&selected_maps_, {maps, "", "", ""});
    for (const char* selector : {"colour=even", "colour=odd", "shard=0", "shard=1"}) {
      Follow<core_v1::ConfigMap>(&selected_maps_, {maps, "", selector, ""});
    }
    Follow<core_v1::ConfigMap>(&selected_maps_,
                               {maps, "", "", "metadata.namespace=" + namespaces_[0]});
    Follow<core_v1::Pod>(&all_pods_, {kPods.type(), "", "", ""});
    Follow<DynamicObject>(&all_widgets_, {widgets, "", "", ""});
    Follow<DynamicObject>(&all_widgets_, {widgets, "", "colour=odd", ""});
    Follow<core_v1::Node>(&nodes_, {kNodes.type(), "", "", ""});
  }
  template <typename T>
  void Follow(std::vector<std::unique_ptr<Followed<T>>>* all, ObjectScope scope,
              std::map<std::string, typename Cache<T>::IndexFunction> indexes = {}) {
    all->push_back(std::make_unique<Followed<T>>(
        InformerOf<T>(std::move(scope), std::move(indexes)), &handlers_));
  }

  // 20 reconcilers: two of each namespace.
  void AddReconcilers() {
    for (size_t i = 0; i < namespaces_.size(); ++i) {
      Informer<DynamicObject>* const widgets = widgets_[i]->informer();
      Informer<core_v1::ConfigMap>* const maps = maps_[i]->informer();
      copies_.push_back(std::make_unique<Copies>(client_.Of(kConfigMaps), widgets, maps, seed_));
      items_.push_back(std::make_unique<Items>(client_.Of(kConfigMaps), widgets, maps, seed_));
      const auto add = [&](const char* name, ReconcileFunction function) {
        ReconcilerOptions options;
        options.name = absl::StrCat(name, "-", i);
        options.queue.max_backoff = absl::Seconds(2);
        reconcilers_.push_back(std::make_unique<Reconciler>(
            options, std::move(function),
            ReconcilerDependencies{&handlers_, absl::nullopt, nullptr}));
        reconcilers_.back()->WatchOwn<DynamicObject>(widgets);
        reconcilers_.back()->WatchOwned<core_v1::ConfigMap>(maps, OwnersOf, "test.capstan.dev",
                                                            "Widget");
      };
      add("copies",
          [mine = copies_.back().get()](const auto& key) { return mine->Reconcile(key); });
      add("items", [mine = items_.back().get()](const auto& key) { return mine->Reconcile(key); });
    }
  }

  // A namespace has one writer, so that it knows what it wrote last.
  bool WriteOne(int writer, Random* random) {
    const size_t mine = (namespaces_.size() - writer - 1) / kWriters + 1;
    const size_t ns = writer + kWriters * random->Below(mine);
    switch (random->Below(10)) {
      case 0:
        return Write(client_.Of(kNodes), nodes_[0]->informer(), "",
                     NodeName(kNodesEach * writer + random->Below(kNodesEach)), {}, random);
      case 1:
        return Write(client_.Of(kPods), pods_[ns]->informer(), namespaces_[ns],
                     PodName(random->Below(kPodsEach)), {}, random);
      case 2:
        return Write(client_.Of(WidgetType()), widgets_[ns]->informer(), namespaces_[ns],
                     WidgetName(random->Below(kWidgetsEach)), {}, random);
      case 3:
      case 4:
        return SetWanted(ns, random);
      default: {
        const uint64_t which = random->Below(kMaps);
        return Write(client_.Of(kConfigMaps), maps_[ns]->informer(), namespaces_[ns],
                     MapName(which), ShardOf(which), random);
      }
    }
  }

  // One write of an object, which is this thread's alone; false if it failed.
  template <typename T>
  bool Write(const BlockingResource<T>& resource, Informer<T>* informer, const std::string& ns,
             const std::string& name, const Labels& labels, Random* random) {
    const auto now = resource.Get(ns, name);
    if (!now.ok() && !absl::IsNotFound(now.status())) return false;
    if (now.ok() && random->OneIn(5)) return Delete(resource, informer, **now);
    const int64_t number = ++number_;
    const auto written = now.ok()
                             ? resource.Update(Numbered(**now, number))
                             : resource.Create(Numbered(NewObject<T>(ns, name, labels), number));
    if (!written.ok()) return false;
    informer->Expect(*written);
    const auto read = informer->Get(ns, name);
    EXPECT_TRUE(read != nullptr && NumberOf(*read) == number)
        << ToString(informer->scope()) << " " << name << ": wrote " << number << ", read "
        << (read == nullptr ? -1 : NumberOf(*read));
    return true;
  }
  template <typename T>
  bool Delete(const BlockingResource<T>& resource, Informer<T>* informer, const T& object) {
    DeleteOptions options;
    options.uid = std::string(ObjectTraits<T>::Uid(object));
    options.grace_period = absl::ZeroDuration();
    const ObjectKey key = KeyOf(object);
    const auto gone = resource.Delete(key.ns, key.name, options);
    if (!gone.ok()) return false;
    // A Pod's last state is no sign that it is gone.
    if (*gone != nullptr) return true;
    informer->ExpectGone(key, options.uid);
    EXPECT_EQ(informer->Get(key.ns, key.name), nullptr)
        << ToString(informer->scope()) << " " << key.ToString();
    return true;
  }
  bool SetWanted(size_t ns, Random* random) {
    const auto widgets = client_.Of(WidgetType());
    const auto now = widgets.Get(namespaces_[ns], OwnerName(random->Below(kOwners)));
    if (!now.ok()) return false;
    nlohmann::json json = (*now)->ToJson();
    json["spec"]["copies"] = random->Below(kMostCopies);
    // Items are never taken away.
    json["spec"]["items"] = std::min(ItemsOf(**now) + 1, kMostItems);
    return widgets.Update(Numbered(ObjectOf(json), ++number_)).ok();
  }

  void Wrote(bool ok) {
    if (!ok) return absl::SleepFor(absl::Milliseconds(20));
    const absl::MutexLock lock(&mutex_);
    ++writes_;
  }
  void AwaitWrites(int more) {
    const absl::MutexLock lock(&mutex_);
    const int until = writes_ + more;
    const auto enough = [this, until]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return writes_ >= until; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kLong)) << "nothing is written";
  }

  void Break(int fault) {
    const auto kill = [this](Part part) {
      cluster_->Kill(part);
      const absl::Status restarted = cluster_->Restart(part);
      EXPECT_TRUE(restarted.ok()) << restarted;
    };
    const auto stop = [this](Part part) {
      cluster_->Stop(part);
      absl::SleepFor(absl::Milliseconds(1000 + random_.Below(4000)));
      cluster_->Continue(part);
    };
    switch (fault) {
      case 0:
        return kill(Part::kApiServer);
      case 1:
        return kill(Part::kEtcd);
      case 2:
        return stop(Part::kApiServer);
      case 3:
        return stop(Part::kEtcd);
      default: {
        const auto compacted = cluster_->CompactEtcd();
        EXPECT_TRUE(compacted.ok()) << compacted.status();
      }
    }
  }

  // Waits until what the Widgets want is there, and all caches and handlers have what the server
  // has.
  void Settle() {
    const absl::Time deadline = absl::Now() + kLong;
    std::string wrong;
    do {
      absl::SleepFor(absl::Milliseconds(200));
      absl::Status status;
      const auto maps = Truth(client_.Of(kConfigMaps), &status);
      const auto pods = Truth(client_.Of(kPods), &status);
      const auto widgets = Truth(client_.Of(WidgetType()), &status);
      const auto nodes = Truth(client_.Of(kNodes), &status);
      if (!status.ok()) {
        wrong = status.ToString();
        continue;
      }
      objects_ = maps.size() + pods.size() + widgets.size() + nodes.size();
      wrong = WrongMaps(widgets, maps);
      Compare(maps_, maps, &wrong);
      Compare(selected_maps_, maps, &wrong);
      Compare(pods_, pods, &wrong);
      Compare(all_pods_, pods, &wrong);
      Compare(widgets_, widgets, &wrong);
      Compare(all_widgets_, widgets, &wrong);
      Compare(nodes_, nodes, &wrong);
    } while (!wrong.empty() && absl::Now() < deadline);
    EXPECT_EQ(wrong, "");
    EXPECT_GE(objects_, 10'000u);
  }
  template <typename T>
  static void Compare(const std::vector<std::unique_ptr<Followed<T>>>& all,
                      const typename Followed<T>::Objects& truth, std::string* wrong) {
    for (const auto& followed : all) {
      if (!wrong->empty()) return;
      const ObjectScope& scope = followed->informer()->scope();
      typename Followed<T>::Objects mine;
      for (const auto& [key, object] : truth) {
        if (InScope(*object, scope)) mine[key] = object;
      }
      *wrong = followed->Difference(mine);
      if (!wrong->empty()) {
        absl::StrAppend(wrong, ": ", ToString(scope), ", last failure ",
                        followed->informer()->stats().failure.ToString());
      }
    }
  }
  // Of copies and items.
  std::string WrongMaps(const Followed<DynamicObject>::Objects& widgets,
                        const Followed<core_v1::ConfigMap>::Objects& maps) {
    std::map<ObjectKey, std::vector<const core_v1::ConfigMap*>> items;
    for (const auto& [key, map] : maps) {
      for (const std::string& owner : ItemOf(*map)) items[{key.ns, owner}].push_back(map.get());
    }
    for (size_t ns = 0; ns < namespaces_.size(); ++ns) {
      for (int i = 0; i < kOwners; ++i) {
        const ObjectKey owner = {namespaces_[ns], OwnerName(i)};
        const auto widget = widgets.find(owner);
        if (widget == widgets.end()) return absl::StrCat(owner.ToString(), " is missing");
        for (int copy = 0; copy < kMostCopies; ++copy) {
          const ObjectKey key = {owner.ns, CopyName(owner.name, copy)};
          if (maps.contains(key) != (copy < CopiesOf(*widget->second))) {
            return absl::StrCat(key.ToString(), " is not as wanted");
          }
        }
        const std::string wrong = items_[ns]->Wrong(items[owner], ItemsOf(*widget->second));
        if (!wrong.empty()) return absl::StrCat("items of ", owner.ToString(), ": ", wrong);
      }
    }
    return "";
  }

  // Where the time went.
  void Passed(const std::string& what) {
    const absl::Time now = absl::Now();
    absl::StrAppend(&passed_, passed_.empty() ? "" : ", ", what, " ",
                    absl::ToInt64Milliseconds(now - std::exchange(last_, now)), " ms");
  }

  void Report() {
    InformerStats sum;
    for (AnyInformer* const informer : informers_.informers()) {
      const InformerStats stats = informer->stats();
      // After the API server was killed.
      EXPECT_GE(stats.lists + stats.watches, 2u) << ToString(informer->scope());
      sum.objects += stats.objects;
      sum.events += stats.events;
      sum.lists += stats.lists;
      sum.watches += stats.watches;
      sum.failures += stats.failures;
    }
    const absl::MutexLock lock(&mutex_);
    std::cout << "seed " << seed_ << ": " << objects_ << " objects, " << sum.objects
              << " in caches, " << writes_ << " writes, " << sum.events << " events, " << sum.lists
              << " lists, " << sum.watches << " watches, " << sum.failures << " failures\n";
  }

  // The next exercise has owners of its own.
  void CleanUp() {
    ListOptions mine;
    mine.label_selector = absl::StrCat("seed=", seed_);
    InParallel(static_cast<int>(namespaces_.size()), [&](int i) {
      const auto widgets = client_.Of(WidgetType()).DeleteCollection(namespaces_[i], mine);
      EXPECT_TRUE(widgets.ok()) << widgets.status();
      const auto maps = client_.Of(kConfigMaps).DeleteCollection(namespaces_[i], mine);
      EXPECT_TRUE(maps.ok()) << maps.status();
    });
  }

  testenv::KubernetesCluster* const cluster_;
  const std::string seed_;
  Random random_;
  const ClientConfig config_;
  RealClient client_;
  const std::vector<std::string> namespaces_;
  const std::unique_ptr<RealTransport> watcher_;
  std::vector<std::shared_ptr<const void>> codecs_;
  ThreadStrand strand_;
  ThreadStrand handlers_;
  InformerSet informers_;
  // By namespace.
  std::vector<std::unique_ptr<Followed<core_v1::ConfigMap>>> maps_;
  std::vector<std::unique_ptr<Followed<core_v1::Pod>>> pods_;
  std::vector<std::unique_ptr<Followed<DynamicObject>>> widgets_;
  // The others.
  std::vector<std::unique_ptr<Followed<core_v1::ConfigMap>>> selected_maps_;
  std::vector<std::unique_ptr<Followed<core_v1::Pod>>> all_pods_;
  std::vector<std::unique_ptr<Followed<DynamicObject>>> all_widgets_;
  std::vector<std::unique_ptr<Followed<core_v1::Node>>> nodes_;
  std::vector<std::unique_ptr<Copies>> copies_;
  std::vector<std::unique_ptr<Items>> items_;
  std::vector<std::unique_ptr<Reconciler>> reconcilers_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> number_{0};
  size_t objects_ = 0;
  absl::Time last_ = absl::Now();
  std::string passed_;
  absl::Mutex mutex_;
  int writes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void ExerciseInformers(testenv::KubernetesCluster* cluster, uint64_t seed) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Exercise(cluster, seed).Run();
}

}  // namespace capstan::kube::testing
