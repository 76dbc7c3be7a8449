// Nodes that were ordered, and the gangs that they are kept for.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/demand_class.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::CapacityOrder;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using ::testing::HasSubstr;

// Two Nodes of 4 cores, both full; what comes beside them are n2, n3 and so on.
class OrdersTest : public SchedulerCoreTest {
 protected:
  void SetUp() override {
    executor_.Connect();
    RunJob("busy", CoreHarness::Spec(2, 4000));
  }

  // Of as many Tasks, each of which takes a Node.
  void SubmitGang(const std::string& id, int nodes) { Submit(id, CoreHarness::Spec(nodes, 4000)); }
  void SubmitSmall(const std::string& id, absl::Duration time_limit = absl::InfiniteDuration()) {
    JobSpec spec = CoreHarness::Spec(1, 1000);
    if (time_limit != absl::InfiniteDuration()) *spec.mutable_time_limit() = ToProto(time_limit);
    Submit(id, std::move(spec));
  }

  CreateCapacityOrder Order(const std::string& id, int nodes) {
    CreateCapacityOrder event;
    event.call = harness_.next_call();
    event.order_id = id;
    event.creator = "person-1";
    event.order.set_cluster("clusters/local");
    event.order.set_nodes(nodes);
    *event.order.mutable_expire_time() = ToProto(harness_.now().wall + absl::Hours(1));
    return event;
  }
  CreateCapacityOrder OrderFor(const std::string& id, int nodes, const std::string& job) {
    CreateCapacityOrder event = Order(id, nodes);
    event.order.set_job(absl::StrCat("projects/p/jobs/", job));
    return event;
  }
  CreateCapacityOrder OrderForClassOf(const std::string& id, int nodes, const std::string& job) {
    CreateCapacityOrder event = Order(id, nodes);
    event.order.set_demand_class(DemandClassId(DemandNeed::Of(harness_.job(job)).key));
    return event;
  }
  // What is answered.
  absl::StatusOr<CapacityOrder> Give(const Event& event) {
    const std::vector<Effect> effects = harness_.Apply(event);
    executor_.Take(effects);
    const auto replies = Of<ReplyCapacityOrder>(effects);
    return replies.size() == 1 ? replies[0].order : absl::InternalError("no answer");
  }
  absl::Status Delete(const std::string& id) {
    const std::vector<Effect> effects =
        harness_.Apply(DeleteCapacityOrder{harness_.next_call(), id});
    executor_.Take(effects);
    return Of<ReplyEmpty>(effects).at(0).status;
  }
  void Cancel(const std::string& id) {
    executor_.Take(
        harness_.Apply(CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", id), ""}));
  }
  void Come(int node, const std::string& order) {
    executor_.set_labels(node, {{kOrderLabel, order}});
    executor_.ReportNode(node, false);
  }
  // What a Tick at once would do.
  void Settle() { Advance(absl::ZeroDuration()); }

  const rec::CapacityOrderRecord& Stored(const std::string& id) {
    return harness_.core().model().capacity_orders.at(id);
  }
  std::string NomineeOf(const std::string& id) {
    const rec::CapacityOrderRecord& record = Stored(id);
    return record.used() ? absl::StrCat("used by ", record.nominee_uid()) : record.nominee_uid();
  }
  std::string NodeOf(const std::string& uid) { return harness_.job(uid).gang->nodes.at(0); }
  bool Waits(const std::string& uid) { return StateOf(uid) == Job::STATE_QUEUED; }
  // A new leader; the executor says again what it has, Nodes that came among it.
  void Return(int come) {
    if (executor_.connected()) executor_.Disconnect();
    executor_.Connect();
    for (int node = 2; node < 2 + come; ++node) executor_.ReportNode(node, false);
    Settle();
  }
};

TEST_F(OrdersTest, WithoutAnOrderSmallJobsTakeTheFirstOfTheNodes) {
  SubmitGang("gang", 3);
  for (int node = 2; node < 5; ++node) {
    SubmitSmall(absl::StrCat("small", node));
    Come(node, "nobody-knows-it");
    EXPECT_FALSE(Waits(absl::StrCat("small", node)));
  }
  EXPECT_TRUE(Waits("gang"));
}

TEST_F(OrdersTest, NodesThatComeOneByOneAreKeptUntilTheGangFits) {
  SubmitGang("gang", 3);
  const auto made = Give(OrderFor("more", 3, "gang"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->state(), CapacityOrder::STATE_NOMINATED);
  EXPECT_EQ(made->nominee(), "projects/p/jobs/gang");
  EXPECT_EQ(ReasonOf("gang"), "ORDERED");
  for (int node = 2; node < 5; ++node) {
    EXPECT_TRUE(Waits("gang"));
    SubmitSmall(absl::StrCat("before", node));
    Come(node, "more");
    SubmitSmall(absl::StrCat("after", node));
    EXPECT_TRUE(Waits(absl::StrCat("before", node)));
    EXPECT_TRUE(Waits(absl::StrCat("after", node)));
  }
  EXPECT_EQ(StateOf("gang"), Job::STATE_PREPARING);
  EXPECT_EQ(NomineeOf("more"), "used by gang");
  // From then on they are like all others.
  executor_.PrepareAll();
  executor_.RunAll();
  Cancel("gang");
  Settle();
  EXPECT_FALSE(Waits("before2"));
}

TEST_F(OrdersTest, ExplainSaysHowManyHaveComeAndForWhomTheyAreKept) {
  SubmitGang("gang", 3);
  SubmitSmall("small");
  ASSERT_TRUE(Give(OrderFor("more", 3, "gang")).ok());
  Come(2, "more");
  EXPECT_THAT(Explained("gang").summary(),
              HasSubstr("1 of 3 Nodes of capacityOrders/more have come, and are kept for it"));
  EXPECT_EQ(Explained("gang").reason(), "ORDERED");
  EXPECT_THAT(Explained("small").summary(),
              HasSubstr("1 of 3 nodes is kept for a Job that it was ordered for"));
}

TEST_F(OrdersTest, ANodeOfAnotherClusterOrOrderIsNotKept) {
  SubmitGang("gang", 3);
  ASSERT_TRUE(Give(OrderFor("more", 3, "gang")).ok());
  FakeExecutor other("other", 1, 4000, &harness_);
  other.set_labels(0, {{kOrderLabel, "more"}});
  SubmitSmall("small");
  other.Connect();
  EXPECT_FALSE(Waits("small"));
  SubmitSmall("second");
  Come(2, "less");
  EXPECT_FALSE(Waits("second"));
}

TEST_F(OrdersTest, WhoIsOverBeforeTheyAreAllExpectedMayUseTheFirstMeanwhile) {
  SubmitGang("gang", 3);
  CreateCapacityOrder order = OrderFor("more", 3, "gang");
  *order.order.mutable_expected_time() = ToProto(harness_.now().wall + absl::Minutes(30));
  ASSERT_TRUE(Give(order).ok());
  SubmitSmall("long", absl::Minutes(40));
  SubmitSmall("endless");
  SubmitSmall("short", absl::Minutes(10));
  Come(2, "more");
  EXPECT_TRUE(Waits("long"));
  EXPECT_TRUE(Waits("endless"));
  EXPECT_EQ(NodeOf("short"), "n2");
  EXPECT_EQ(NomineeOf("more"), "gang") << "it is not theirs";
  AdvanceHeard(absl::Minutes(25));
  SubmitSmall("late", absl::Minutes(10));
  EXPECT_TRUE(Waits("late"));
}

TEST_F(OrdersTest, AnOrderThatExpiresKeepsNothingAndItsGangIsDemandAgain) {
  // Of more Nodes than come: else room would be kept for it all the same.
  SubmitGang("gang", 4);
  ASSERT_TRUE(Give(OrderFor("more", 4, "gang")).ok());
  Come(2, "more");
  SubmitSmall("small");
  AdvanceHeard(absl::Minutes(59));
  EXPECT_TRUE(Waits("small"));
  AdvanceHeard(absl::Minutes(1) + absl::Seconds(3));
  EXPECT_FALSE(Waits("small"));
  EXPECT_EQ(ReasonOf("gang"), "INSUFFICIENT_RESOURCES");
  EXPECT_TRUE(harness_.core().model().capacity_orders.empty());
}

TEST_F(OrdersTest, ANewLeaderLetsItExpireInTime) {
  // Of more Nodes than come: else room would be kept for it all the same.
  SubmitGang("gang", 4);
  ASSERT_TRUE(Give(OrderFor("more", 4, "gang")).ok());
  Come(2, "more");
  SubmitSmall("small");
  AdvanceHeard(absl::Minutes(30));
  harness_.NewLeader();
  Return(1);
  EXPECT_EQ(NomineeOf("more"), "gang");
  AdvanceHeard(absl::Minutes(29));
  EXPECT_TRUE(Waits("small"));
  AdvanceHeard(absl::Minutes(1) + absl::Seconds(3));
  EXPECT_FALSE(Waits("small"));
}

TEST_F(OrdersTest, AnOrderThatIsDeletedKeepsNothing) {
  // Of more Nodes than come: else room would be kept for it all the same.
  SubmitGang("gang", 4);
  ASSERT_TRUE(Give(OrderFor("more", 4, "gang")).ok());
  Come(2, "more");
  SubmitSmall("small");
  EXPECT_TRUE(Waits("small"));
  EXPECT_TRUE(Delete("more").ok());
  Settle();
  EXPECT_FALSE(Waits("small"));
  EXPECT_EQ(ReasonOf("gang"), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(Delete("more").code(), absl::StatusCode::kNotFound);
}

TEST_F(OrdersTest, TheNextOfTheClassFollowsOneThatIsCancelledAndThenNobody) {
  SubmitGang("first", 3);
  SubmitGang("second", 3);
  ASSERT_TRUE(Give(OrderFor("more", 3, "first")).ok());
  Come(2, "more");
  Come(3, "more");
  SubmitSmall("small");
  EXPECT_EQ(NomineeOf("more"), "first");
  Cancel("first");
  Settle();
  EXPECT_EQ(NomineeOf("more"), "second");
  EXPECT_EQ(ReasonOf("second"), "ORDERED");
  EXPECT_TRUE(Waits("small")) << "nobody takes them in between";
  Cancel("second");
  Settle();
  EXPECT_EQ(NomineeOf("more"), "");
  EXPECT_FALSE(Waits("small"));
  // One that comes later is nominated all the same.
  SubmitGang("third", 3);
  EXPECT_EQ(NomineeOf("more"), "third");
}

TEST_F(OrdersTest, AnOrderForAClassIsNominatedToTheFirstInOrderAndTheNextOrderToTheNext) {
  JobSpec lower = CoreHarness::Spec(3, 4000);
  Submit("lower", lower);
  JobSpec higher = CoreHarness::Spec(3, 4000);
  higher.set_priority(5);
  Submit("higher", higher);
  SubmitGang("other-kind", 3);
  ASSERT_TRUE(Give(OrderForClassOf("a", 3, "lower")).ok());
  EXPECT_EQ(NomineeOf("a"), "higher");
  ASSERT_TRUE(Give(OrderForClassOf("b", 3, "lower")).ok());
  EXPECT_EQ(NomineeOf("b"), "lower");
  for (int node = 2; node < 5; ++node) Come(node, "b");
  EXPECT_TRUE(Waits("higher")) << "not its Nodes";
  EXPECT_EQ(NodeOf("lower"), "n2");
  EXPECT_EQ(NomineeOf("b"), "used by lower");
}

TEST_F(OrdersTest, AJobMayHaveSeveralOrdersOfItsOwn) {
  SubmitGang("gang", 3);
  ASSERT_TRUE(Give(OrderFor("a", 2, "gang")).ok());
  ASSERT_TRUE(Give(OrderFor("b", 1, "gang")).ok());
  SubmitSmall("small");
  Come(2, "a");
  Come(3, "a");
  EXPECT_TRUE(Waits("gang"));
  Come(4, "b");
  EXPECT_FALSE(Waits("gang"));
  EXPECT_EQ(NomineeOf("a"), "used by gang");
  EXPECT_EQ(NomineeOf("b"), "used by gang");
  EXPECT_TRUE(Waits("small"));
}

TEST_F(OrdersTest, AGangThatStartsElsewhereLeavesTheNodesToTheNextOfItsClass) {
  SubmitGang("first", 2);
  SubmitGang("second", 2);
  ASSERT_TRUE(Give(OrderForClassOf("more", 2, "first")).ok());
  Come(2, "more");
  EXPECT_EQ(NomineeOf("more"), "first");
  Cancel("busy");
  Settle();
  EXPECT_FALSE(Waits("first"));
  // Which Nodes it takes is the placer's business.
  if (NomineeOf("more") != "used by first") {
    EXPECT_EQ(NomineeOf("more"), "second");
  }
}

TEST_F(OrdersTest, AHeldQueueLetsGoOfTheNodes) {
  SubmitGang("gang", 3);
  ASSERT_TRUE(Give(OrderFor("more", 3, "gang")).ok());
  Come(2, "more");
  UpdateQueue hold;
  hold.call = harness_.next_call();
  hold.queue_id = "default";
  hold.queue.set_hold(true);
  hold.update_mask.add_paths("hold");
  executor_.Take(harness_.Apply(hold));
  Settle();
  EXPECT_EQ(ReasonOf("gang"), "QUEUE_HELD");
  EXPECT_EQ(NomineeOf("more"), "");
  hold.call = harness_.next_call();
  hold.queue.set_hold(false);
  executor_.Take(harness_.Apply(hold));
  Settle();
  EXPECT_EQ(NomineeOf("more"), "gang");
}

TEST_F(OrdersTest, WhoHasUsedItsOrderIsDemandWhenItWaitsAgain) {
  SubmitGang("gang", 1);
  ASSERT_TRUE(Give(OrderFor("more", 1, "gang")).ok());
  Come(2, "more");
  executor_.PrepareAll();
  executor_.RunAll();
  EXPECT_EQ(NomineeOf("more"), "used by gang");
  JobSpec urgent = CoreHarness::Spec(1, 4000);
  urgent.set_priority(9);
  AdvanceHeard(absl::Minutes(6));
  Submit("urgent", urgent);
  Settle();
  Settle();
  std::string victim = Waits("gang") ? "gang" : "busy";
  EXPECT_NE(ReasonOf(victim), "ORDERED");
}

TEST_F(OrdersTest, RefusesWhatCannotBe) {
  SubmitGang("gang", 3);
  const auto refused = [&](CreateCapacityOrder event) {
    event.call = harness_.next_call();
    const auto reply = Give(event);
    EXPECT_FALSE(reply.ok());
    const auto fields = status::GetFieldViolations(reply.status());
    return fields.empty() ? std::string(reply.status().message()) : fields[0].field;
  };
  CreateCapacityOrder order = OrderFor("more", 3, "gang");
  *order.order.mutable_expire_time() = ToProto(harness_.now().wall + absl::Seconds(30));
  EXPECT_EQ(refused(order), "order.expire_time");
  *order.order.mutable_expire_time() = ToProto(harness_.now().wall + absl::Hours(24 * 8));
  EXPECT_EQ(refused(order), "order.expire_time");
  order = OrderFor("more", 3, "gang");
  order.order.set_cluster("clusters/typo");
  EXPECT_EQ(refused(order), "order.cluster");
  EXPECT_EQ(refused(OrderFor("more", 3, "absent")), "order.job");
  JobSpec elsewhere = CoreHarness::Spec(3, 4000);
  elsewhere.add_clusters("east");
  Submit("elsewhere", elsewhere);
  EXPECT_EQ(refused(OrderFor("more", 3, "elsewhere")), "order.job");
  ASSERT_TRUE(Give(OrderFor("more", 3, "gang")).ok());
  EXPECT_THAT(refused(OrderFor("more", 3, "gang")), HasSubstr("exists already"));
  for (int i = 1; i < static_cast<int>(kMaxCapacityOrders); ++i) {
    ASSERT_TRUE(Give(OrderForClassOf(absl::StrCat("o", i), 1, "elsewhere")).ok()) << i;
  }
  const auto full = Give(OrderForClassOf("one-more", 1, "gang"));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(OrdersTest, ARequestIdMakesOneOrder) {
  SubmitGang("gang", 3);
  CreateCapacityOrder order = OrderFor("more", 3, "gang");
  order.request_id = "5f0c7a3e-6a0e-4f53-9d2c-7b1b8a4d1e10";
  order.body_hash = "hash";
  ASSERT_TRUE(Give(order).ok());
  order.call = harness_.next_call();
  const auto again = Give(order);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->nominee(), "projects/p/jobs/gang");
  order.call = harness_.next_call();
  order.body_hash = "other";
  EXPECT_EQ(Give(order).status().code(), absl::StatusCode::kAlreadyExists);
  // What was deleted does not come back with a late retry.
  executor_.Take(harness_.Apply(DeleteCapacityOrder{harness_.next_call(), "more"}));
  order.call = harness_.next_call();
  order.body_hash = "hash";
  EXPECT_EQ(Give(order).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(OrdersTest, ValidationNamesTheField) {
  const auto field = [](const std::string& id, const CapacityOrder& order) {
    status::FieldErrors errors;
    ValidateCapacityOrder(id, order, &errors);
    const auto fields = status::GetFieldViolations(errors.ToStatus());
    return fields.empty() ? "" : fields[0].field;
  };
  const CapacityOrder good = OrderFor("more", 3, "gang").order;
  EXPECT_EQ(field("more", good), "");
  EXPECT_EQ(field("More", good), "order_id");
  CapacityOrder order = good;
  order.set_cluster("local");
  EXPECT_EQ(field("more", order), "order.cluster");
  for (const int nodes : {-1, 0, 10'001}) {
    order = good;
    order.set_nodes(nodes);
    EXPECT_EQ(field("more", order), "order.nodes");
  }
  order = good;
  order.clear_job();
  EXPECT_EQ(field("more", order), "order.job");
  order.set_demand_class("0123456789ABCDEF");
  EXPECT_EQ(field("more", order), "order.demand_class");
  order.set_demand_class("0123456789abcdef");
  EXPECT_EQ(field("more", order), "");
  order.set_job("projects/p/jobs/gang");
  EXPECT_EQ(field("more", order), "order.job");
  order = good;
  order.set_job("gang");
  EXPECT_EQ(field("more", order), "order.job");
  order = good;
  order.clear_expire_time();
  EXPECT_EQ(field("more", order), "order.expire_time");
  order = good;
  *order.mutable_expected_time() = ToProto(ToTime(order.expire_time()) + absl::Seconds(1));
  EXPECT_EQ(field("more", order), "order.expected_time");
  order = good;
  order.set_reason(std::string(257, 'x'));
  EXPECT_EQ(field("more", order), "order.reason");
}

// What a leader had begun when it died, after as many writes of each of the steps.
class CrashTest : public OrdersTest, public ::testing::WithParamInterface<int> {};

TEST_P(CrashTest, NoSmallJobEverTakesWhatWasOrderedWhoeverLeads) {
  const auto writes = static_cast<size_t>(GetParam());
  SubmitGang("first", 3);
  SubmitGang("second", 3);
  harness_.CrashIn(OrderFor("more", 3, "first"), writes);
  Return(0);
  if (harness_.core().model().capacity_orders.empty()) {
    ASSERT_TRUE(Give(OrderFor("more", 3, "first")).ok());
  }
  Settle();
  EXPECT_EQ(NomineeOf("more"), "first");
  Come(2, "more");
  SubmitSmall("small");
  harness_.CrashIn(CancelJob{harness_.next_call(), "projects/p/jobs/first", ""}, writes);
  Return(1);
  if (harness_.job("first").final()) {
    EXPECT_EQ(NomineeOf("more"), "second");
  } else {
    EXPECT_EQ(NomineeOf("more"), "first");
    Cancel("first");
    Settle();
    EXPECT_EQ(NomineeOf("more"), "second");
  }
  EXPECT_TRUE(Waits("small"));
  Come(3, "more");
  SubmitSmall("other");
  harness_.CrashIn(Tick{}, writes);
  Return(2);
  EXPECT_TRUE(Waits("other"));
  Come(4, "more");
  EXPECT_FALSE(Waits("second"));
  EXPECT_EQ(NomineeOf("more"), "used by second");
  EXPECT_TRUE(Waits("small"));
  harness_.CrashIn(DeleteCapacityOrder{harness_.next_call(), "more"}, writes);
  Return(3);
  EXPECT_EQ(harness_.core().model().capacity_orders.size(), writes == 0 ? 1u : 0u);
}

TEST_P(CrashTest, APlacementOnOrderedNodesAndTheirUseAreOneWrite) {
  SubmitGang("gang", 1);
  ASSERT_TRUE(Give(OrderFor("more", 1, "gang")).ok());
  ObservationsReceived come;
  come.session = executor_.session();
  come.observations.set_journal_sequence(1000);
  auto& node = *come.observations.add_nodes();
  node.set_node("n2");
  node.mutable_allocatable()->set_cpu_millis(4000);
  node.mutable_allocatable()->set_memory_bytes(int64_t{1} << 30);
  (*node.mutable_labels())[kOrderLabel] = "more";
  harness_.CrashIn(come, static_cast<size_t>(GetParam()));
  EXPECT_EQ(Stored("more").used(), !Waits("gang"));
  EXPECT_EQ(Stored("more").nominee_uid(), "gang");
}

INSTANTIATE_TEST_SUITE_P(Writes, CrashTest, ::testing::Range(0, 5));

}  // namespace
}  // namespace capstan::scheduler
