#include "integration/simulation/maintainers.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/maintenance.pb.h"

namespace capstan::simulation {

using capstan::scheduler::v1::MaintenanceWindow;

Maintainers::Maintainers(Network* network, const MachineClock* clock,
                         std::vector<SchedulerActor*> schedulers, PlacementWitness* witness,
                         std::vector<scheduler::NodeId> nodes)
    : SchedulerCaller(network, "maintainers", clock, std::move(schedulers)),
      witness_(witness),
      nodes_(std::move(nodes)) {}

void Maintainers::Act(absl::Duration end) {
  Plan(end);
  // One whose answer was lost may be there still, or come twice.
  Later(end + absl::Minutes(6), [this] {
    for (const Window& window : ever_) Delete(window);
  });
}

void Maintainers::Plan(absl::Duration end) {
  Later(world().random().Between(absl::Seconds(25), absl::Seconds(110)), [this, end] {
    if (world().now() >= end) return;
    Random& random = world().random();
    const bool in_stead = !held_.empty() && random.OneIn(3);
    Window before;
    if (in_stead) before = *std::next(held_.begin(), random.Below(held_.size()));
    Create(AnyWindow());
    if (in_stead) Delete(before);
    Plan(end);
  });
}

scheduler::CreateMaintenanceWindow Maintainers::AnyWindow() {
  Random& random = world().random();
  const scheduler::NodeId& node = nodes_[random.Below(nodes_.size())];
  scheduler::CreateMaintenanceWindow create;
  create.cluster = node.cluster;
  create.window_id = absl::StrCat("w", ever_.size());
  create.uid = random.Uuid4();
  create.creator = "person/3000";
  create.request_id = random.Uuid4();
  create.body_hash = "hash-" + create.uid;
  MaintenanceWindow& window = create.window;
  if (!random.OneIn(3)) {
    window.add_nodes(node.Name());
  } else if (!random.OneIn(4)) {
    (*window.mutable_node_labels())[kRowLabel] = random.OneIn(2) ? "a" : "b";
  } else {
    window.set_all_nodes(true);
  }
  const absl::Duration ahead =
      random.Between(absl::ZeroDuration(), random.OneIn(4) ? absl::Minutes(8) : absl::Seconds(40));
  const absl::Time start = Read().wall + ahead;
  // Unset: now.
  if (!random.OneIn(6)) *window.mutable_start_time() = ToProto(start);
  *window.mutable_end_time() = ToProto(start + random.Between(absl::Seconds(2), absl::Seconds(50)));
  window.set_evict(!random.OneIn(3));
  window.set_reason("simulated");
  return create;
}

void Maintainers::Create(const scheduler::CreateMaintenanceWindow& create) {
  Asked();
  const Window window{create.cluster, create.window_id};
  ever_.insert(window);
  SchedulerActor* const scheduler = AnyScheduler();
  network().Call<MaintenanceWindow>(
      this, scheduler,
      [scheduler, create](auto reply) {
        scheduler->CreateMaintenanceWindow(create, std::move(reply));
      },
      [this, create, window](const absl::StatusOr<MaintenanceWindow>& made) {
        Answered();
        if (made.ok()) {
          world().Log(name(), absl::StrCat("have ", made->name()));
          world().Fault("window");
          witness_->WindowAcknowledged(window.cluster, window.id);
          held_.insert(window);
          // Half of them pass by themselves.
          const absl::Duration kept =
              world().random().Between(absl::Seconds(5), absl::Seconds(120));
          if (world().random().OneIn(2)) Later(kept, [this, window] { Delete(window); });
        } else if (Unknown(made.status())) {
          Asked();
          Later(absl::Seconds(2), [this, create] {
            Answered();
            Create(create);
          });
        }
      });
}

void Maintainers::Delete(const Window& window) {
  Asked();
  held_.erase(window);
  witness_->WindowAskedBack(window.cluster, window.id);
  SchedulerActor* const scheduler = AnyScheduler();
  network().Call<bool>(
      this, scheduler,
      [scheduler, window](auto reply) {
        scheduler->DeleteMaintenanceWindow(
            scheduler::DeleteMaintenanceWindow{0, window.cluster, window.id, ""}, std::move(reply));
      },
      [this, window](const absl::StatusOr<bool>& done) {
        Answered();
        if (done.ok() || !Unknown(done.status())) return;
        Asked();
        Later(absl::Seconds(2), [this, window] {
          Answered();
          Delete(window);
        });
      });
}

}  // namespace capstan::simulation
