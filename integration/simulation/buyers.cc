#include "integration/simulation/buyers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "services/scheduler/core/capacity_orders.h"

namespace capstan::simulation {

using capstan::scheduler::v1::CapacityOrder;
using WaitingJobs = std::vector<SchedulerActor::WaitingJob>;

Buyers::Buyers(Network* network, const MachineClock* clock, std::vector<SchedulerActor*> schedulers,
               PlacementWitness* witness, std::vector<Place> places)
    : SchedulerCaller(network, "buyers", clock, std::move(schedulers)),
      witness_(witness),
      places_(std::move(places)) {}

void Buyers::Act(absl::Duration end) {
  end_ = end;
  Plan(end);
  Later(end, [this] {
    for (const Place& place : places_) place.machine->SetLabel(scheduler::kOrderLabel, "");
  });
  // One whose answer was lost may be there still, or come twice.
  Later(end + absl::Minutes(6), [this] {
    for (const std::string& order : ever_) Delete(order);
  });
}

void Buyers::Plan(absl::Duration end) {
  Later(world().random().Between(absl::Seconds(20), absl::Seconds(70)), [this, end] {
    if (world().now() >= end) return;
    OrderForSomebody();
    Plan(end);
  });
}

void Buyers::OrderForSomebody() {
  SchedulerActor* const scheduler = AnyScheduler();
  network().Call<WaitingJobs>(
      this, scheduler, [scheduler](const auto& reply) { reply(scheduler->WaitingJobs()); },
      [this](const absl::StatusOr<WaitingJobs>& waiting) {
        if (!waiting.ok() || waiting->empty()) return;
        Random& random = world().random();
        const SchedulerActor::WaitingJob& job = (*waiting)[random.Below(waiting->size())];
        scheduler::CreateCapacityOrder create;
        create.order_id = absl::StrCat("o", ever_.size());
        create.creator = "person/4000";
        create.request_id = random.Uuid4();
        create.body_hash = "hash-" + create.request_id;
        CapacityOrder& order = create.order;
        order.set_cluster(
            absl::StrCat("clusters/", places_[random.Below(places_.size())].id.cluster));
        order.set_nodes(static_cast<int32_t>(random.Between(int64_t{1}, int64_t{2})));
        if (random.OneIn(2)) {
          order.set_job(job.name);
        } else {
          order.set_demand_class(job.demand_class);
        }
        const absl::Time now = Read().wall;
        const absl::Duration life = random.Between(absl::Seconds(70), absl::Seconds(200));
        *order.mutable_expire_time() = ToProto(now + life);
        if (random.OneIn(2)) {
          *order.mutable_expected_time() = ToProto(now + random.Between(absl::Seconds(10), life));
        }
        ever_.insert(create.order_id);
        Create(create);
      });
}

void Buyers::Create(const scheduler::CreateCapacityOrder& create) {
  Asked();
  SchedulerActor* const scheduler = AnyScheduler();
  network().Call<CapacityOrder>(
      this, scheduler,
      [scheduler, create](auto reply) { scheduler->CreateCapacityOrder(create, std::move(reply)); },
      [this, create](const absl::StatusOr<CapacityOrder>& made) {
        Answered();
        if (made.ok()) {
          world().Log(name(), absl::StrCat("have ", made->name()));
          world().Fault("order");
          witness_->OrderAcknowledged(create.order_id);
          Deliver(create.order_id, create.order.cluster(), create.order.nodes());
          // Half of them expire.
          const absl::Duration kept =
              world().random().Between(absl::Seconds(20), absl::Seconds(120));
          if (world().random().OneIn(2)) {
            Later(kept, [this, order = create.order_id] { Delete(order); });
          }
        } else if (Unknown(made.status())) {
          Asked();
          Later(absl::Seconds(2), [this, create] {
            Answered();
            Create(create);
          });
        }
      });
}

void Buyers::Deliver(const std::string& order, const std::string& cluster, int nodes) {
  std::vector<Machine*> there;
  for (const Place& place : places_) {
    if (absl::StrCat("clusters/", place.id.cluster) == cluster) there.push_back(place.machine);
  }
  Random& random = world().random();
  const size_t first = random.Below(there.size());
  for (int i = 0; i < nodes; ++i) {
    Machine* const machine = there[(first + i) % there.size()];
    const absl::Duration comes = random.Between(absl::Seconds(1), absl::Seconds(30));
    Later(comes, [this, machine, order] {
      if (world().now() < end_) machine->SetLabel(scheduler::kOrderLabel, order);
    });
    Later(comes + random.Between(absl::Seconds(40), absl::Seconds(200)), [machine, order] {
      const auto label = machine->labels().find(scheduler::kOrderLabel);
      if (label == machine->labels().end() || label->second != order) return;
      machine->SetLabel(scheduler::kOrderLabel, "");
    });
  }
}

void Buyers::Delete(const std::string& order) {
  Asked();
  witness_->OrderAskedBack(order);
  SchedulerActor* const scheduler = AnyScheduler();
  network().Call<bool>(
      this, scheduler,
      [scheduler, order](auto reply) {
        scheduler->DeleteCapacityOrder(scheduler::DeleteCapacityOrder{0, order}, std::move(reply));
      },
      [this, order](const absl::StatusOr<bool>& done) {
        Answered();
        if (done.ok() || !Unknown(done.status())) return;
        Asked();
        Later(absl::Seconds(2), [this, order] {
          Answered();
          Delete(order);
        });
      });
}

}  // namespace capstan::simulation
