#include "integration/kube/informer_exercise.h"

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/informer_set.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/reconciler/ownership.h"
#include "libs/kube/reconciler/reconciler.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::testing {
namespace {

using Part = testenv::KubernetesCluster::Part;

constexpr absl::Duration kLong = absl::Minutes(2);
constexpr int kNames = 6;

// Every write has a number that is higher than that of all before it, in this annotation.
constexpr char kNumber[] = "number";

template <typename T>
int64_t NumberOf(const T& object) {
  std::string text;
  if constexpr (std::is_same_v<T, DynamicObject>) {
    text = object.ToJson().value("/metadata/annotations/number"_json_pointer, "");
  } else {
    const auto& annotations = object.metadata().annotations();
    const auto found = annotations.find(kNumber);
    if (found != annotations.end()) text = found->second;
  }
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

template <typename T>
T Numbered(const T& object, int64_t number) {
  if constexpr (std::is_same_v<T, DynamicObject>) {
    nlohmann::json json = object.ToJson();
    json["metadata"]["annotations"][kNumber] = absl::StrCat(number);
    return ObjectOf(json);
  } else {
    T changed = object;
    (*changed.mutable_metadata()->mutable_annotations())[kNumber] = absl::StrCat(number);
    return changed;
  }
}

bool SameObject(const DynamicObject& a, const DynamicObject& b) { return a.ToJson() == b.ToJson(); }
template <typename T>
bool SameObject(const T& a, const T& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

template <typename T>
T NewObject(const std::string& ns, const std::string& name) {
  if constexpr (std::is_same_v<T, DynamicObject>) {
    return ObjectOf({{"apiVersion", "test.capstan.dev/v1"},
                     {"kind", "Widget"},
                     {"metadata", {{"namespace", ns}, {"name", name}}},
                     {"spec", {{"copies", 0}}}});
  } else {
    T object;
    object.mutable_metadata()->set_name(name);
    if (!std::is_same_v<T, core_v1::Node>) object.mutable_metadata()->set_namespace_(ns);
    if constexpr (std::is_same_v<T, core_v1::Pod>) {
      auto* const container = object.mutable_spec()->add_containers();
      container->set_name("c");
      container->set_image("none");
      // No node has it, so that the Pod stays where it is and is gone when it is deleted.
      object.mutable_spec()->set_scheduler_name("nobody");
    }
    return object;
  }
}

// One resource: what it is written by, an informer of it, and what a handler of that is told.
template <typename T>
class Followed {
 public:
  Followed(BlockingResource<T> resource, Informer<T>* informer, std::string ns, Strand* strand)
      : resource_(std::move(resource)), informer_(informer), ns_(std::move(ns)) {
    Handler<T> handler;
    handler.on_change = [this](const CacheChange<T>& change, bool) { OnChange(change); };
    subscription_ = informer_->AddHandler(strand, std::move(handler));
  }

  // One write of the object, which is this thread's alone; false if it failed.
  bool Write(const std::string& name, int64_t number, Random* random) {
    const auto now = resource_.Get(ns_, name);
    if (!now.ok() && !absl::IsNotFound(now.status())) return false;
    if (now.ok() && random->OneIn(5)) return Delete(**now);
    WriteOptions options;
    const auto written = now.ok()
                             ? resource_.Update(Numbered(**now, number), options)
                             : resource_.Create(Numbered(NewObject<T>(ns_, name), number), options);
    if (!written.ok()) return false;
    informer_->Expect(*written);
    const auto read = informer_->Get(ns_, name);
    EXPECT_TRUE(read != nullptr && NumberOf(*read) == number)
        << ToString(informer_->scope()) << " " << name << ": wrote " << number << ", read "
        << (read == nullptr ? -1 : NumberOf(*read));
    return true;
  }

  // Waits until cache and handler have what the server has.
  void ExpectTruth() {
    const absl::Time deadline = absl::Now() + kLong;
    std::string difference;
    while (absl::Now() < deadline) {
      const auto truth = resource_.ListAll(ns_, {});
      difference = truth.ok() ? Difference(truth->items) : truth.status().ToString();
      if (difference.empty()) return;
      absl::SleepFor(absl::Milliseconds(100));
    }
    ADD_FAILURE() << ToString(informer_->scope()) << ": " << difference << "; last failure "
                  << informer_->stats().failure;
  }

  InformerStats stats() const { return informer_->stats(); }

 private:
  bool Delete(const T& object) {
    DeleteOptions options;
    options.uid = std::string(ObjectTraits<T>::Uid(object));
    options.grace_period = absl::ZeroDuration();
    const ObjectKey key = KeyOf(object);
    const auto gone = resource_.Delete(ns_, key.name, options);
    if (!gone.ok()) return false;
    // A Pod's last state is no sign that it is gone.
    if (*gone != nullptr) return true;
    informer_->ExpectGone(key, options.uid);
    EXPECT_EQ(informer_->Get(ns_, key.name), nullptr)
        << ToString(informer_->scope()) << " " << key.name;
    return true;
  }

  void OnChange(const CacheChange<T>& change) {
    const absl::MutexLock lock(&mutex_);
    const T& object = change.after != nullptr ? *change.after : *change.last_known;
    const ObjectKey key = KeyOf(object);
    Told& told = told_[key];
    const int64_t number = NumberOf(object);
    EXPECT_GE(number, told.number) << ToString(informer_->scope()) << " " << key.ToString();
    told.number = number;
    told.object = change.after;
    if (change.after == nullptr) return;
    EXPECT_TRUE(told.versions.insert(std::string(ObjectTraits<T>::ResourceVersion(object))).second)
        << ToString(informer_->scope()) << " " << key.ToString() << " twice";
  }

  std::string Difference(const std::vector<std::shared_ptr<const T>>& truth) {
    std::map<ObjectKey, std::shared_ptr<const T>> cached;
    for (auto& object : informer_->List()) cached[KeyOf(*object)] = object;
    if (cached.size() != truth.size()) {
      return absl::StrCat(cached.size(), " in the cache, ", truth.size(), " on the server");
    }
    const absl::MutexLock lock(&mutex_);
    size_t told = 0;
    for (const auto& [key, last] : told_) told += last.object != nullptr ? 1 : 0;
    if (told != truth.size()) return absl::StrCat(told, " told, ", truth.size(), " on the server");
    for (const auto& object : truth) {
      const ObjectKey key = KeyOf(*object);
      const auto found = cached.find(key);
      if (found == cached.end() || !SameObject(*found->second, *object)) {
        return absl::StrCat(key.ToString(), " is another in the cache");
      }
      const auto& last = told_[key].object;
      if (last == nullptr || !SameObject(*last, *object)) {
        return absl::StrCat(key.ToString(), " was told as another");
      }
    }
    return "";
  }

  struct Told {
    int64_t number = 0;
    std::shared_ptr<const T> object;
    std::set<std::string> versions;
  };

  const BlockingResource<T> resource_;
  Informer<T>* const informer_;
  const std::string ns_;
  absl::Mutex mutex_;
  std::map<ObjectKey, Told> told_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Subscription<T>> subscription_;
};

std::vector<OwnerReference> OwnersOf(const core_v1::ConfigMap& map) {
  std::vector<OwnerReference> owners;
  for (const auto& owner : map.metadata().owner_references()) {
    owners.push_back({owner.api_version(), owner.kind(), owner.name(), owner.uid(),
                      owner.controller(), owner.block_owner_deletion()});
  }
  return owners;
}

int CopiesOf(const DynamicObject& widget) {
  return widget.ToJson().value("/spec/copies"_json_pointer, 0);
}

std::string CopyName(const std::string& widget, int i) { return absl::StrCat(widget, "-copy-", i); }

// Keeps `spec.copies` ConfigMaps for each Widget.
class Copies {
 public:
  Copies(BlockingResource<core_v1::ConfigMap> resource, Informer<DynamicObject>* widgets,
         Informer<core_v1::ConfigMap>* maps)
      : resource_(std::move(resource)), widgets_(widgets), maps_(maps) {}

  absl::StatusOr<ReconcileResult> Reconcile(const ObjectKey& key) {
    const auto widget = widgets_->Get(key.ns, key.name);
    if (widget == nullptr) return ReconcileResult{};
    const int wanted = CopiesOf(*widget);
    for (int i = 0; i < kNames; ++i) {
      const std::string name = CopyName(key.name, i);
      const auto map = maps_->Get(key.ns, name);
      absl::Status status;
      if (map == nullptr && i < wanted) status = Make(*widget, name);
      if (map != nullptr && i >= wanted) status = Drop(*map);
      if (!status.ok()) return status;
    }
    return ReconcileResult{};
  }

 private:
  absl::Status Make(const DynamicObject& widget, const std::string& name) {
    core_v1::ConfigMap map = NewObject<core_v1::ConfigMap>(widget.ns(), name);
    auto* const owner = map.mutable_metadata()->add_owner_references();
    owner->set_api_version("test.capstan.dev/v1");
    owner->set_kind("Widget");
    owner->set_name(widget.name());
    owner->set_uid(widget.uid());
    owner->set_controller(true);
    const auto made = resource_.Create(map);
    Count(name, made.status(), absl::IsAlreadyExists(made.status()));
    if (made.ok()) maps_->Expect(*made);
    return made.status();
  }

  absl::Status Drop(const core_v1::ConfigMap& map) {
    DeleteOptions options;
    options.uid = map.metadata().uid();
    const ObjectKey key = KeyOf(map);
    const auto gone = resource_.Delete(key.ns, key.name, options);
    // The client makes this call again by itself, and may then find that it had been done.
    if (gone.ok()) maps_->ExpectGone(key, options.uid);
    Count(key.name, gone.status(), false);
    return absl::IsNotFound(gone.status()) ? absl::OkStatus() : gone.status();
  }

  // That a write was made twice is an error unless the server's answer to the first was lost.
  void Count(const std::string& name, const absl::Status& status, bool twice) {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(!twice || unsure_.contains(name)) << name << ": " << status;
    if (status.ok() || twice || HttpStatusOf(status) == 404) {
      unsure_.erase(name);
    } else {
      unsure_.insert(name);
    }
  }

  const BlockingResource<core_v1::ConfigMap> resource_;
  Informer<DynamicObject>* const widgets_;
  Informer<core_v1::ConfigMap>* const maps_;
  absl::Mutex mutex_;
  std::set<std::string> unsure_ ABSL_GUARDED_BY(mutex_);
};

class Exercise {
 public:
  Exercise(testenv::KubernetesCluster* cluster, uint64_t seed)
      : cluster_(cluster),
        random_(seed),
        config_(AdminConfig(*cluster).value()),
        client_(config_),
        ns_(cluster->CreateNamespace().value()),
        watcher_(MakeTransport(config_).value()),
        strand_("kube", &watcher_->clock),
        handlers_("handlers", &watcher_->clock),
        informers_({watcher_->transport.get(), &strand_, seed, absl::nullopt, nullptr}) {}

  void Run() {
    const absl::Status served = ServeWidgets(&client_);
    ASSERT_TRUE(served.ok()) << served;
    const auto nodes = Follow<core_v1::Node>(client_.Of(kNodes), kNodes.type(), "");
    const auto pods = Follow<core_v1::Pod>(client_.Of(kPods), kPods.type(), ns_);
    const auto maps = Follow<core_v1::ConfigMap>(client_.Of(kConfigMaps), kConfigMaps.type(), ns_);
    const auto widgets = Follow<DynamicObject>(client_.Of(WidgetType()), WidgetType(), ns_);

    Informer<DynamicObject>* const widget_informer = InformerOf<DynamicObject>(WidgetType(), ns_);
    Informer<core_v1::ConfigMap>* const map_informer =
        InformerOf<core_v1::ConfigMap>(kConfigMaps.type(), ns_);
    Copies copies(client_.Of(kConfigMaps), widget_informer, map_informer);
    Reconciler reconciler({.name = "copies", .workers = 2},
                          [&](const ObjectKey& key) { return copies.Reconcile(key); },
                          {&handlers_, absl::nullopt, nullptr});
    reconciler.WatchOwn<DynamicObject>(widget_informer);
    reconciler.WatchOwned<core_v1::ConfigMap>(map_informer, OwnersOf, "test.capstan.dev", "Widget");
    reconciler.Start();
    informers_.Start();
    const absl::Status synced = informers_.AwaitSynced(kLong);
    ASSERT_TRUE(synced.ok()) << synced;

    std::vector<std::thread> writers;
    for (int i = 0; i < 2; ++i) {
      writers.emplace_back([&, i, random = Random(random_.Next())]() mutable {
        while (!stop_) {
          const uint64_t which = random.Below(kNames);
          const auto name = [&](const char* kind) { return absl::StrCat(kind, i, "-", which); };
          const int64_t number = ++number_;
          bool ok = false;
          switch (random.Below(4)) {
            case 0:
              ok = nodes->Write(absl::StrCat(ns_, "-", name("n")), number, &random);
              break;
            case 1:
              ok = pods->Write(name("p"), number, &random);
              break;
            case 2:
              ok = maps->Write(name("c"), number, &random);
              break;
            default:
              ok = widgets->Write(name("w"), number, &random);
          }
          Wrote(ok);
        }
      });
    }
    writers.emplace_back([&, random = Random(random_.Next())]() mutable {
      while (!stop_)
        Wrote(SetCopies(absl::StrCat("owner-", random.Below(3)), random.Below(kNames)));
    });

    // Each of the faults once, in an order of the seed's, and some of them again.
    std::vector<int> faults = {0, 1, 2, 3};
    for (size_t i = faults.size(); i > 1; --i) std::swap(faults[i - 1], faults[random_.Below(i)]);
    for (const int fault : faults) {
      AwaitWrites(100);
      Break(fault);
    }
    AwaitWrites(100);
    stop_ = true;
    for (std::thread& writer : writers) writer.join();

    ExpectCopies();
    reconciler.Stop();
    nodes->ExpectTruth();
    pods->ExpectTruth();
    maps->ExpectTruth();
    widgets->ExpectTruth();
    for (AnyInformer* const informer : informers_.informers()) {
      const InformerStats stats = informer->stats();
      std::cout << ToString(informer->scope()) << ": " << stats.events << " events, " << stats.lists
                << " lists, " << stats.watches << " watches, " << stats.failures << " failures\n";
      // After the API server was killed.
      EXPECT_GE(stats.lists + stats.watches, 2u);
    }
    informers_.Stop();
  }

 private:
  template <typename T>
  Informer<T>* InformerOf(const ResourceType& type, const std::string& ns) {
    InformerOptions<T> options;
    options.scope.type = type;
    options.scope.ns = ns;
    // A fault lasts for seconds.
    options.list_watch.reflector.max_backoff = absl::Seconds(2);
    codecs_.push_back(MakeCodec<T>(type));
    return informers_.Get<T>(options, static_cast<const Codec<T>*>(codecs_.back().get())).value();
  }
  template <typename T>
  std::unique_ptr<Followed<T>> Follow(BlockingResource<T> resource, const ResourceType& type,
                                      const std::string& ns) {
    return std::make_unique<Followed<T>>(std::move(resource), InformerOf<T>(type, ns), ns,
                                         &handlers_);
  }

  bool SetCopies(const std::string& name, uint64_t copies) {
    const auto widgets = client_.Of(WidgetType());
    const auto now = widgets.Get(ns_, name);
    if (!now.ok() && !absl::IsNotFound(now.status())) return false;
    nlohmann::json json = (now.ok() ? **now : NewObject<DynamicObject>(ns_, name)).ToJson();
    json["spec"]["copies"] = copies;
    const DynamicObject widget = Numbered(ObjectOf(json), ++number_);
    return (now.ok() ? widgets.Update(widget) : widgets.Create(widget)).ok();
  }

  // Waits until there are as many copies as the Widgets say.
  void ExpectCopies() {
    const absl::Time deadline = absl::Now() + kLong;
    std::string difference;
    while (absl::Now() < deadline) {
      difference.clear();
      for (int i = 0; i < 3; ++i) {
        const std::string name = absl::StrCat("owner-", i);
        const auto widget = client_.Of(WidgetType()).Get(ns_, name);
        if (absl::IsNotFound(widget.status())) continue;
        for (int copy = 0; copy < kNames; ++copy) {
          const auto map = client_.Of(kConfigMaps).Get(ns_, CopyName(name, copy));
          const bool wanted = widget.ok() && copy < CopiesOf(**widget);
          if (map.ok() != wanted) absl::StrAppend(&difference, CopyName(name, copy), " ");
        }
      }
      if (difference.empty()) return;
      absl::SleepFor(absl::Milliseconds(100));
    }
    ADD_FAILURE() << "wrong: " << difference;
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
    switch (fault) {
      case 0: {
        cluster_->Kill(Part::kApiServer);
        const absl::Status restarted = cluster_->Restart(Part::kApiServer);
        ASSERT_TRUE(restarted.ok()) << restarted;
        return;
      }
      case 1:
        cluster_->Stop(Part::kEtcd);
        absl::SleepFor(absl::Seconds(3));
        cluster_->Continue(Part::kEtcd);
        return;
      case 2: {
        const auto compacted = cluster_->CompactEtcd();
        EXPECT_TRUE(compacted.ok()) << compacted.status();
        return;
      }
      default:
        cluster_->Stop(Part::kApiServer);
        absl::SleepFor(absl::Seconds(3));
        cluster_->Continue(Part::kApiServer);
    }
  }

  testenv::KubernetesCluster* const cluster_;
  Random random_;
  const ClientConfig config_;
  RealClient client_;
  const std::string ns_;
  const std::unique_ptr<RealTransport> watcher_;
  std::vector<std::shared_ptr<const void>> codecs_;
  ThreadStrand strand_;
  ThreadStrand handlers_;
  InformerSet informers_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> number_{0};
  absl::Mutex mutex_;
  int writes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void ExerciseInformers(testenv::KubernetesCluster* cluster, uint64_t seed) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Exercise(cluster, seed).Run();
}

}  // namespace capstan::kube::testing
