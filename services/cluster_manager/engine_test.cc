#include "services/cluster_manager/engine.h"

#include <set>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "services/cluster_manager/core/health_core.h"
#include "services/cluster_manager/ports/node_registry.h"

namespace capstan::cluster_manager {
namespace {

namespace sched = ::capstan::scheduler::v1;

// More Nodes than a transaction has operations.
constexpr int kNodes = static_cast<int>(store::kMaxTxnOps) + 100;

class FakeRegistry final : public NodeRegistry {
 public:
  void Watch(Listener given) override { listener = std::move(given); }
  void Cordon(const std::string& node, const std::string&,
              absl::AnyInvocable<void(absl::Status)> done) override {
    cordoned.insert(node);
    done(absl::OkStatus());
  }
  void Uncordon(const std::string& node, absl::AnyInvocable<void(absl::Status)> done) override {
    cordoned.erase(node);
    done(absl::OkStatus());
  }

  Listener listener;
  std::set<std::string> cordoned;
};

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() : engine_(Config(), &store_, &nodes_, &strand_, Random(1), &logger_, &metrics_) {
    engine_.Start();
    strand_.RunReady();
  }

  static EngineConfig Config() {
    EngineConfig config;
    config.health.owner = "spiffe://d/svc/cluster_manager";
    config.member = "a";
    config.sole_owner = true;
    return config;
  }
  void ShowAll(bool sick) {
    for (int i = 0; i < kNodes; ++i) {
      sched::Node node;
      node.set_name(absl::StrCat("clusters/local/nodes/n", i));
      node.set_state(sched::Node::STATE_ACTIVE);
      if (sick) node.add_limitations(type::v1::NodeObservation::LIMITATION_DISK_FULL);
      nodes_.listener.seen(node);
    }
    nodes_.listener.synced();
    strand_.RunReady();
  }
  size_t Verdicts() {
    size_t count = 0;
    const std::string prefix = VerdictKey("");
    store_.Range({.key = prefix, .end = store::PrefixEnd(prefix), .limit = 2 * kNodes},
                 [&](const absl::StatusOr<store::RangeResult>& range) {
                   EXPECT_TRUE(range.ok()) << range.status();
                   if (range.ok()) count = range->kvs.size();
                 });
    strand_.RunReady();
    return count;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  store::MemoryStore store_{&strand_};
  log::TestingSink sink_;
  log::Logger logger_{"cluster_manager", &clock_, &sink_};
  metrics::Registry metrics_{"cluster_manager"};
  FakeRegistry nodes_;
  Engine engine_;
};

TEST_F(EngineTest, MoreNodesThanATransactionHoldsFallIllAndGoAtOnce) {
  ShowAll(/*sick=*/true);
  EXPECT_EQ(Verdicts(), kNodes);
  strand_.Advance(absl::Seconds(31));
  strand_.RunReady();
  EXPECT_EQ(nodes_.cordoned.size(), kNodes);
  // The scheduler comes back, and has none of them any more.
  nodes_.listener.lost();
  nodes_.listener.synced();
  strand_.RunReady();
  EXPECT_EQ(Verdicts(), 0);
  // It still judges.
  nodes_.cordoned.clear();
  ShowAll(/*sick=*/true);
  strand_.Advance(absl::Seconds(31));
  strand_.RunReady();
  EXPECT_EQ(nodes_.cordoned.size(), kNodes);
}

}  // namespace
}  // namespace capstan::cluster_manager
