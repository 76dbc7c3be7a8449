#include "integration/simulation/queue_owners.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::simulation {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::RateLimit;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;

namespace {

constexpr absl::Duration kAgain = absl::Seconds(2);

// With thousandths of CPUs.
Queue MakeQueue(const std::string& parent, int64_t weight, int64_t guarantee,
                absl::optional<int64_t> borrowing) {
  Queue queue;
  queue.set_parent(parent);
  queue.set_weight(weight);
  auto& quota = *queue.add_quotas();
  quota.set_resource("cpu");
  quota.set_guarantee(guarantee);
  if (borrowing.has_value()) quota.mutable_borrowing_limit()->set_amount(*borrowing);
  return queue;
}

RateLimit Rate(int64_t count, absl::Duration period, int64_t burst) {
  RateLimit rate;
  rate.set_count(count);
  *rate.mutable_period() = ToProto(period);
  rate.set_burst(burst);
  return rate;
}

}  // namespace

QueueOwners::QueueOwners(Network* network, const MachineClock* clock,
                         std::vector<SchedulerActor*> schedulers, QueueWitness* witness)
    : SchedulerCaller(network, "queue-owners", clock, std::move(schedulers)), witness_(witness) {}

const std::vector<std::string>& QueueOwners::Leaves() {
  static const auto* leaves = new std::vector<std::string>(
      {"queues/default", "queues/research-a", "queues/research-b", kService});
  return *leaves;
}

const std::string& QueueOwners::AnyQueue() { return made_[world().random().Below(made_.size())]; }

void QueueOwners::Act(absl::Duration end, bool keeps_to_itself) {
  // A fleet of two Clusters of three Nodes has 24 CPUs. The largest Job fits each limit.
  Queue research = MakeQueue("", 200, 12000, 4000);
  *research.mutable_usage_half_life() = ToProto(absl::Minutes(2));
  Queue one = MakeQueue("queues/research", 100, 6000, 2000);
  *one.mutable_submit_rate() = Rate(4, absl::Minutes(1), 2);
  Queue other = MakeQueue("queues/research", 50, 4000, absl::nullopt);
  *other.mutable_start_rate() = Rate(6, absl::Minutes(1), 2);
  Queue service = MakeQueue("", 100, 4000, 2000);
  if (keeps_to_itself) {
    service.mutable_quotas(0)->mutable_lending_limit()->set_amount(1000);
    service.set_allow_non_preemptible(true);
    *service.mutable_min_runtime() = ToProto(absl::Seconds(20));
    *research.mutable_min_runtime() = ToProto(absl::Seconds(30));
  }
  for (const auto& [id, queue] : std::vector<std::pair<std::string, Queue>>{{"research", research},
                                                                            {"research-a", one},
                                                                            {"research-b", other},
                                                                            {"service", service}}) {
    scheduler::CreateQueue create;
    create.queue_id = id;
    create.request_id = world().random().Uuid4();
    create.body_hash = "hash-" + create.request_id;
    create.queue = queue;
    Create(create);
  }
  Plan(end);
  Later(end + absl::Seconds(30), [this] {
    for (const std::string& queue : made_) Open(queue);
  });
}

void QueueOwners::Create(const scheduler::CreateQueue& create) {
  Asked();
  SchedulerActor* const scheduler = AnyScheduler();
  network().Call<Queue>(
      this, scheduler,
      [this, scheduler, create](auto reply) {
        scheduler::CreateQueue call = create;
        call.uid = world().random().Uuid4();
        scheduler->CreateQueue(std::move(call), std::move(reply));
      },
      [this, create](const absl::StatusOr<Queue>& made) {
        if (made.ok()) {
          Answered();
          world().Log(name(), absl::StrCat("have ", made->name()));
          witness_->QueueAcknowledged(*made);
          made_.push_back(create.queue_id);
          return;
        }
        // Also where the Queue above is not there yet.
        Later(kAgain, [this, create] {
          Answered();
          Create(create);
        });
      });
}

void QueueOwners::Plan(absl::Duration end) {
  Later(world().random().Between(absl::Seconds(20), absl::Seconds(70)), [this, end] {
    if (world().now() >= end) return;
    Plan(end);
    if (made_.empty()) return;
    switch (world().random().Below(4)) {
      case 0:
      case 1:
        return AskWhatWouldHappen();
      case 2: {
        scheduler::UpdateQueue update;
        update.queue_id = AnyQueue();
        update.update_mask.add_paths("weight");
        update.queue.set_weight(world().random().Between(int64_t{10}, int64_t{300}));
        return Update(update, end);
      }
      default:
        return CloseForAWhile(end);
    }
  });
}

void QueueOwners::CloseForAWhile(absl::Duration end) {
  scheduler::UpdateQueue update;
  update.queue_id = AnyQueue();
  switch (world().random().Below(3)) {
    case 0:
      world().Fault("queue held");
      update.queue.set_hold(true);
      break;
    case 1:
      world().Fault("queue drained");
      update.queue.set_drain(true);
      break;
    default:
      world().Fault("queue cordoned");
      update.queue.set_cordon(true);
  }
  for (const char* path : {"hold", "drain", "cordon"}) update.update_mask.add_paths(path);
  world().Log(name(), absl::StrCat("close ", update.queue_id));
  Update(update, end);
  Later(world().random().Between(absl::Seconds(10), absl::Seconds(60)),
        [this, queue = update.queue_id] { Open(queue); });
}

void QueueOwners::Open(const std::string& queue) {
  scheduler::UpdateQueue update;
  update.queue_id = queue;
  for (const char* path : {"hold", "drain", "cordon"}) update.update_mask.add_paths(path);
  Update(update, absl::InfiniteDuration());
}

void QueueOwners::Update(const scheduler::UpdateQueue& update, absl::Duration end) {
  if (world().now() >= end) return;
  Asked();
  SchedulerActor* const scheduler = AnyScheduler();
  network().Call<Queue>(
      this, scheduler,
      [scheduler, update](auto reply) { scheduler->UpdateQueue(update, std::move(reply)); },
      [this, update, end](const absl::StatusOr<Queue>& done) {
        if (done.ok()) {
          Answered();
          return;
        }
        Later(kAgain, [this, update, end] {
          Answered();
          Update(update, end);
        });
      });
}

void QueueOwners::AskWhatWouldHappen() {
  Random& random = world().random();
  SimulatePlacementRequest request;
  request.set_parent("projects/p");
  for (int64_t n = random.Between(int64_t{1}, int64_t{3}); n > 0; --n) {
    JobSpec& spec = *request.add_jobs();
    spec.set_queue(Leaves()[random.Below(Leaves().size())]);
    spec.set_priority(static_cast<int32_t>(random.Between(int64_t{-1}, int64_t{1})));
    auto& group = *spec.add_task_groups();
    group.set_name("w");
    group.set_replicas(static_cast<int32_t>(random.Between(int64_t{1}, int64_t{6})));
    group.add_argv("/bin/train");
    group.mutable_resources()->set_cpu_millis(1000);
  }
  switch (random.Below(3)) {
    case 0:
      request.add_node_changes()->set_remove("clusters/c0/nodes/c0-n0");
      break;
    case 1: {
      auto& added = *request.add_node_changes()->mutable_add();
      added.set_count(2);
      added.set_like("clusters/c0/nodes/c0-n0");
      break;
    }
    default:
      break;
  }
  SchedulerActor* const scheduler = AnyScheduler();
  Asked();
  network().Call<SimulatePlacementResponse>(
      this, scheduler,
      [scheduler, request](const auto& reply) { scheduler->SimulatePlacement(request, reply); },
      [this](const absl::StatusOr<SimulatePlacementResponse>& told) {
        Answered();
        if (told.ok()) world().Fault("simulated placement");
      });
}

}  // namespace capstan::simulation
