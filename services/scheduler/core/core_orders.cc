// Orders of capacity, and the gangs that they are nominated to. Nodes of an order are kept while
// somebody is nominated; and while, after one was nominated no more, one full round looks for the
// next, so that nobody takes them in between.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/core_round.h"
#include "services/scheduler/core/demand_class.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::CapacityOrder;
using capstan::scheduler::v1::Job;

void SchedulerCore::On(const CreateCapacityOrder& event) {
  const auto fail = [&](absl::Status status) {
    replies_.push_back(ReplyCapacityOrder{event.call, std::move(status)});
  };
  const std::string name = absl::StrCat("capacityOrders/", event.order_id);
  const std::string key = RequestKey("capacity_orders", "-", event.request_id);
  if (!event.request_id.empty()) {
    const absl::StatusOr<std::string> made = Replayed(key, event.body_hash);
    if (!made.ok()) return fail(made.status());
    if (!made->empty()) {
      // It has expired, or was deleted.
      if (model_.capacity_orders.count(*made) == 0) return fail(status::NotFound(name));
      order_replies_[event.call] = *made;
      return;
    }
  }
  if (model_.capacity_orders.count(event.order_id) > 0) {
    return fail(status::Error(absl::StatusCode::kAlreadyExists, "ORDER_EXISTS",
                              absl::StrCat(name, " exists already; choose another id"),
                              {{"order", name}}));
  }
  if (absl::Status wrong = CheckNewOrder(model_, event.order, now_.wall); !wrong.ok()) {
    return fail(std::move(wrong));
  }
  if (model_.capacity_orders.size() >= kMaxCapacityOrders) {
    return fail(status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_ORDERS",
                      absl::StrCat("there are ", kMaxCapacityOrders,
                                   " orders of capacity, as many as are kept; delete some, or wait "
                                   "until they expire")),
        absl::Minutes(1)));
  }
  rec::CapacityOrderRecord& record = model_.capacity_orders[event.order_id];
  record.set_schema_version(1);
  CapacityOrder& order = *record.mutable_order();
  order = event.order;
  order.set_name(name);
  *order.mutable_create_time() = ToProto(now_.wall);
  order.set_creator(event.creator);
  order.clear_state();
  order.clear_nominee();
  order.clear_nodes_come();
  record.set_demand_class(order.demand_class());
  if (const JobEntry* job = model_.FindJobByName(order.job())) {
    record.set_job_uid(job->uid());
    record.set_demand_class(DemandClassId(DemandNeed::Of(*job).key));
  }
  order_expiries_.emplace(now_.boot + (ToTime(order.expire_time()) - now_.wall), event.order_id);
  dirty_orders_.insert(event.order_id);
  if (!event.request_id.empty()) {
    Write write;
    // With the order, or not at all.
    write.puts.push_back(PutCapacityOrder(event.order_id, record));
    RememberRequest(key, event.body_hash, event.order_id, &write.puts, &write.deletes);
    other_writes_.push_back(std::move(write));
  }
  order_replies_[event.call] = event.order_id;
  SeekNominee(event.order_id);
}

void SchedulerCore::On(const DeleteCapacityOrder& event) {
  if (model_.capacity_orders.count(event.order_id) == 0) {
    replies_.push_back(
        ReplyEmpty{event.call, status::NotFound(absl::StrCat("capacityOrders/", event.order_id))});
    return;
  }
  RemoveOrder(event.order_id);
  replies_.push_back(ReplyEmpty{event.call, absl::OkStatus()});
}

void SchedulerCore::RestoreOrders() {
  for (const auto& [id, record] : model_.capacity_orders) {
    order_expiries_.emplace(now_.boot + (ToTime(record.order().expire_time()) - now_.wall), id);
    if (!record.used() && record.nominee_uid().empty()) seeking_orders_.insert(id);
  }
}

void SchedulerCore::ExpireOrders() {
  while (!order_expiries_.empty() && order_expiries_.begin()->first <= now_.boot) {
    RemoveOrder(std::string(order_expiries_.begin()->second));
  }
}

void SchedulerCore::RemoveOrder(const std::string& id) {
  model_.capacity_orders.erase(id);
  std::erase_if(order_expiries_, [&id](const auto& expiry) { return expiry.second == id; });
  seeking_orders_.erase(id);
  dirty_orders_.erase(id);
  Write write;
  write.deletes.push_back({CapacityOrderKey(id), ""});
  other_writes_.push_back(std::move(write));
  OrdersChanged();
}

void SchedulerCore::OrdersChanged() {
  room_changed_ = true;
  hopeless_.clear();
}

void SchedulerCore::SeekNominee(const std::string& id) {
  seeking_orders_.insert(id);
  OrdersChanged();
}

bool SchedulerCore::IsNominee(const JobEntry& job) const {
  return std::any_of(model_.capacity_orders.begin(), model_.capacity_orders.end(),
                     [&job](const auto& order) {
                       return !order.second.used() && order.second.nominee_uid() == job.uid();
                     });
}

void SchedulerCore::SettleOrders() {
  for (auto& [id, record] : model_.capacity_orders) {
    if (record.nominee_uid().empty() || record.used()) continue;
    const absl::optional<JobGlance> job = model_.jobs.Glance(record.nominee_uid());
    if (job.has_value() && job->reason == kOrdered && queue_book_.IsWaiting(job->submit_sequence)) {
      continue;
    }
    record.clear_nominee_uid();
    record.clear_nominee();
    dirty_orders_.insert(id);
    SeekNominee(id);
  }
}

bool SchedulerCore::Nominate(JobEntry* job) {
  bool is_nominee = IsNominee(*job);
  OrderSeeker seeker(*job);
  for (auto& [id, record] : model_.capacity_orders) {
    // Of several for its class the next is for another gang; those that name it are all its own.
    if ((is_nominee && record.job_uid() != job->uid()) || !seeker.MayHave(model_, record)) continue;
    is_nominee = true;
    record.set_nominee_uid(job->uid());
    record.set_nominee(job->spec.name());
    dirty_orders_.insert(id);
    Touch(*job).orders.insert(id);
    hopeless_.clear();
  }
  if (is_nominee) {
    SetState(job, Job::STATE_QUEUED, kOrdered, "Nodes that were ordered are kept for it");
  }
  return is_nominee;
}

void SchedulerCore::ConcludeSeeking() {
  if (seeking_orders_.empty()) return;
  for (const std::string& id : std::exchange(seeking_orders_, {})) {
    const rec::CapacityOrderRecord& record = model_.capacity_orders.at(id);
    // Its Nodes are everybody's from the next round on.
    if (record.nominee_uid().empty()) OrdersChanged();
  }
}

void SchedulerCore::KeepOrdered(RoundWork* work) const {
  if (seeking_orders_.empty()) return;
  int at = 0;
  for (const auto& [id, node] : model_.nodes) {
    const std::string order = OrderOfNode(model_, id, node);
    if (seeking_orders_.count(order) > 0) work->Standing(at).capacity.order = order;
    ++at;
  }
}

GangRequest SchedulerCore::RequestOf(const JobEntry& job) const {
  GangRequest request = GangRequest::From(job);
  OrderSeeker seeker(job);
  for (const auto& [id, record] : model_.capacity_orders) {
    const bool is_kept = !record.nominee_uid().empty() || seeking_orders_.count(id) > 0;
    if (record.used() || !is_kept) continue;
    if (record.nominee_uid() == job.uid() || seeker.MayHave(model_, record) ||
        IsOverInTime(record, request.duration, now_.wall)) {
      request.orders.insert(id);
    }
  }
  return request;
}

void SchedulerCore::UseOrders(const JobEntry& job) {
  OrderSeeker seeker(job);
  for (auto& [id, record] : model_.capacity_orders) {
    const bool is_its = !record.used() && record.nominee_uid() == job.uid();
    if (!is_its && !seeker.MayHave(model_, record)) continue;
    const bool any = std::any_of(job.gang->nodes.begin(), job.gang->nodes.end(),
                                 [&, &id = id](const std::string& node) {
                                   const NodeId of{job.gang->head.cluster(), node};
                                   return OrderOfNode(model_, of, model_.nodes.at(of)) == id;
                                 });
    if (!any) continue;
    record.set_used(true);
    record.set_nominee_uid(job.uid());
    record.set_nominee(job.spec.name());
    seeking_orders_.erase(id);
    dirty_orders_.insert(id);
    Touch(job).orders.insert(id);
    OrdersChanged();
  }
}

}  // namespace capstan::scheduler
