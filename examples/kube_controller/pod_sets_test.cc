#include "examples/kube_controller/pod_sets.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/testing/fake_api_state.h"
#include "libs/kube/testing/json.h"
#include "libs/time/system_clock.h"
#include "yaml-cpp/yaml.h"

namespace capstan::examples {
namespace {

using kube::core_v1::Pod;
using kube::testing::FakeApiServer;
using kube::testing::FakeApiState;
using kube::testing::Json;

Json ToJson(const YAML::Node& node) {
  Json json;
  if (node.IsMap()) {
    json = Json::object();
    for (const auto& entry : node) json[entry.first.as<std::string>()] = ToJson(entry.second);
  } else if (node.IsSequence()) {
    for (const auto& item : node) json.push_back(ToJson(item));
  } else {
    const std::string text = node.as<std::string>();
    const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    json = parsed.is_discarded() || node.Tag() == "!" ? Json(text) : parsed;
  }
  return json;
}

class PodSetsTest : public ::testing::Test {
 protected:
  PodSetsTest() : server_(Options(), &clock_), connection_(server_.NewTransport(), {}, &clock_) {
    server_.Use([](FakeApiState& state) {
      const auto* const definitions =
          state.FindType("apiextensions.k8s.io", "v1", "customresourcedefinitions");
      const auto made = state.Create(*definitions, "",
                                     ToJson(YAML::LoadFile("examples/kube_controller/crd.yaml")));
      ASSERT_TRUE(made.ok());
    });
    observer_ = std::make_unique<kube::Connection>(server_.NewTransport(),
                                                   kube::ConnectionOptions(), &clock_);
    sets_ = *observer_->Follow(kPodSets);
    pods_ = *observer_->Follow(kube::kPods);
    subscriptions_.push_back(sets_->AddHandler(
        observer_->informer_strand(), {[this](const auto&, bool) { Changed(); }, nullptr}));
    subscriptions_.push_back(pods_->AddHandler(
        observer_->informer_strand(), {[this](const auto&, bool) { Changed(); }, nullptr}));
    observer_->informers()->Start();
    controller_ =
        std::thread([this] { EXPECT_TRUE(RunPodSets(&connection_, absl::nullopt, stop_).ok()); });
  }
  ~PodSetsTest() override {
    stop_.Notify();
    controller_.join();
    subscriptions_.clear();
  }

  static kube::testing::FakeApiServerOptions Options() {
    kube::testing::FakeApiServerOptions options;
    options.converter = &kube::BuiltinConverter();
    return options;
  }

  void Changed() {
    absl::MutexLock lock(&mutex_);
    ++changes_;
  }
  // Looks again at each change of what there is.
  bool Await(const std::function<bool()>& condition) {
    const BootTime deadline = clock_.Read().boot + absl::Seconds(50);
    while (clock_.Read().boot < deadline) {
      int seen = 0;
      {
        absl::MutexLock lock(&mutex_);
        seen = changes_;
      }
      if (condition()) return true;
      absl::MutexLock lock(&mutex_);
      const auto changed = [this, seen] { return changes_ != seen; };
      mutex_.AwaitWithTimeout(absl::Condition(&changed), deadline - clock_.Read().boot);
    }
    return false;
  }

  void Write(int replicas) {
    const Json set = {{"apiVersion", "examples.capstan.dev/v1"},
                      {"kind", "PodSet"},
                      {"metadata", {{"name", "web"}, {"namespace", "default"}}},
                      {"spec",
                       {{"replicas", replicas},
                        {"template",
                         {{"metadata", {{"labels", {{"app", "web"}}}}},
                          {"spec", {{"containers", {{{"name", "c"}, {"image", "i"}}}}}}}}}}};
    const auto object = kube::DynamicObject::FromJson(set);
    ASSERT_TRUE(object.ok()) << object.status();
    const auto calls = observer_->Calls(kPodSets);
    const auto present = calls.Get("default", "web");
    if (!present.ok()) {
      const auto created = calls.Create(*object);
      ASSERT_TRUE(created.ok()) << created.status();
      return;
    }
    const auto patched = calls.Patch("default", "web", kube::PatchType::kMerge,
                                     Json{{"spec", {{"replicas", replicas}}}}.dump(), {});
    ASSERT_TRUE(patched.ok()) << patched.status();
  }
  std::vector<std::string> PodNames() {
    std::vector<std::string> names;
    for (const auto& pod : pods_->List()) names.push_back(pod->metadata().name());
    return names;
  }
  int Ready() {
    const auto set = sets_->Get("default", "web");
    if (set == nullptr) return -1;
    return set->ToJson().value("status", Json::object()).value("ready", -1);
  }
  void MakeReady(const std::string& name) {
    server_.Use([&](FakeApiState& state) {
      const auto& type = *state.FindType("", "v1", "pods");
      Json pod = *state.Get(type, "default", name);
      pod["status"]["conditions"] = Json::array({{{"type", "Ready"}, {"status", "True"}}});
      ASSERT_TRUE(state.Update(type, "default", name, "status", pod).ok());
    });
  }

  const SystemClock clock_;
  FakeApiServer server_;
  kube::Connection connection_;
  absl::Mutex mutex_;
  int changes_ = 0;
  std::unique_ptr<kube::Connection> observer_;
  kube::Informer<kube::DynamicObject>* sets_ = nullptr;
  kube::Informer<Pod>* pods_ = nullptr;
  std::vector<std::shared_ptr<void>> subscriptions_;
  absl::Notification stop_;
  std::thread controller_;
};

using Names = std::vector<std::string>;

TEST_F(PodSetsTest, KeepsAsManyPodsAsTheSetSays) {
  Write(3);
  ASSERT_TRUE(Await([&] { return PodNames() == Names{"web-0", "web-1", "web-2"}; }));
  const auto pod = pods_->Get("default", "web-1");
  ASSERT_EQ(pod->metadata().owner_references_size(), 1);
  EXPECT_EQ(pod->metadata().owner_references(0).kind(), "PodSet");
  EXPECT_TRUE(pod->metadata().owner_references(0).controller());
  EXPECT_EQ(pod->metadata().labels().at("app"), "web");
  EXPECT_TRUE(Await([&] { return Ready() == 0; }));
  MakeReady("web-0");
  MakeReady("web-1");
  EXPECT_TRUE(Await([&] { return Ready() == 2; }));
  Write(1);
  EXPECT_TRUE(Await([&] { return PodNames() == Names{"web-0"} && Ready() == 1; }));
}

TEST_F(PodSetsTest, APodThatIsDeletedComesAgainAndAllGoWithTheSet) {
  Write(2);
  ASSERT_TRUE(Await([&] { return PodNames() == Names{"web-0", "web-1"}; }));
  const std::string uid = pods_->Get("default", "web-0")->metadata().uid();
  ASSERT_TRUE(observer_->Calls(kube::kPods).Delete("default", "web-0", {.uid = uid}).ok());
  EXPECT_TRUE(Await([&] {
    const auto again = pods_->Get("default", "web-0");
    return again != nullptr && again->metadata().uid() != uid;
  }));
  const std::string set = sets_->Get("default", "web")->uid();
  ASSERT_TRUE(observer_->Calls(kPodSets).Delete("default", "web", {.uid = set}).ok());
  EXPECT_TRUE(Await([&] { return PodNames().empty(); }));
}

}  // namespace
}  // namespace capstan::examples
