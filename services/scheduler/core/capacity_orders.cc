#include "services/scheduler/core/capacity_orders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/demand_class.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::CapacityOrder;

namespace {

bool IsClassId(absl::string_view id) {
  return id.size() == 16 && std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

bool MayRunIn(const std::vector<std::string>& clusters, absl::string_view cluster) {
  return clusters.empty() || std::find(clusters.begin(), clusters.end(), cluster) != clusters.end();
}

absl::string_view ClusterOf(const rec::CapacityOrderRecord& record) {
  return absl::StripPrefix(record.order().cluster(), "clusters/");
}

// It waits, or will, for what the order brings.
bool MayComeToWait(const absl::optional<JobGlance>& job) {
  return job.has_value() && !job->final() && !job->live && job->reason != "QUEUE_LIMIT" &&
         job->reason != "QUEUE_HELD";
}

}  // namespace

void ValidateCapacityOrder(absl::string_view order_id, const CapacityOrder& order,
                           status::FieldErrors* errors) {
  if (!resource::IsValidId(order_id)) {
    errors->Add("order_id",
                absl::StrCat("is `", order_id, "`; expected [a-z]([a-z0-9-]{0,61}[a-z0-9])?"));
  }
  if (!resource::ClusterName::Parse(order.cluster()).ok()) {
    errors->Add("order.cluster", absl::StrCat("is `", order.cluster(), "`; expected ",
                                              resource::ClusterName::kPattern));
  }
  if (order.nodes() < 1 || order.nodes() > kMaxOrderedNodes) {
    errors->Add("order.nodes",
                absl::StrCat("is ", order.nodes(), "; expected 1 to ", kMaxOrderedNodes));
  }
  if (order.job().empty() == order.demand_class().empty()) {
    errors->Add("order.job",
                "and order.demand_class: expected one of them, which says what the "
                "Nodes are for");
  }
  if (!order.job().empty() && !resource::JobName::Parse(order.job()).ok()) {
    errors->Add("order.job",
                absl::StrCat("is `", order.job(), "`; expected ", resource::JobName::kPattern));
  }
  if (!order.demand_class().empty() && !IsClassId(order.demand_class())) {
    errors->Add("order.demand_class",
                absl::StrCat("is `", order.demand_class(),
                             "`; expected the id of a class of `capstan node demand -o json`, 16 "
                             "hex digits"));
  }
  if (!order.has_expire_time()) {
    errors->Add("order.expire_time",
                "is not set; expected when the order is void, at most 7 days "
                "from now");
  } else if (order.has_expected_time() &&
             ToTime(order.expected_time()) > ToTime(order.expire_time())) {
    errors->Add("order.expected_time", "is after order.expire_time; expected a time up to it");
  }
  if (order.reason().size() > kMaxOrderReasonBytes) {
    errors->Add("order.reason", absl::StrCat("has ", order.reason().size(),
                                             " bytes; expected at most ", kMaxOrderReasonBytes));
  }
}

absl::Status CheckNewOrder(const Model& model, const CapacityOrder& order, absl::Time now) {
  status::FieldErrors errors;
  const absl::Duration life = ToTime(order.expire_time()) - now;
  if (life < kMinOrderLife || life > kMaxOrderLife) {
    errors.Add("order.expire_time",
               absl::StrCat("is ", absl::FormatDuration(absl::Trunc(life, absl::Seconds(1))),
                            " from now; expected 1 min to 7 days"));
  }
  const std::string cluster(absl::StripPrefix(order.cluster(), "clusters/"));
  if (model.clusters.count(cluster) == 0) {
    errors.Add("order.cluster", absl::StrCat("`", order.cluster(),
                                             "` is not known: no executor of it was ever there; "
                                             "`capstan cluster list` shows those that are"));
  }
  if (order.job().empty()) return errors.ToStatus();
  const JobEntry* job = model.FindJobByName(order.job());
  if (job == nullptr || job->final()) {
    errors.Add("order.job",
               absl::StrCat("`", order.job(), job == nullptr ? "` does not exist" : "` has ended",
                            "; expected a Job that waits for Nodes"));
  } else if (!MayRunIn(DemandNeed::Of(*job).clusters, cluster)) {
    errors.Add("order.job",
               absl::StrCat("`", order.job(), "` may not run in ", order.cluster(),
                            "; order Nodes of a Cluster that it, or its data, is restricted to"));
  }
  return errors.ToStatus();
}

std::string OrderOfNode(const Model& model, const NodeId& id, const rec::NodeRecord& node) {
  const auto label = node.observation().labels().find(kOrderLabel);
  if (label == node.observation().labels().end()) return "";
  const auto order = model.capacity_orders.find(label->second);
  if (order == model.capacity_orders.end() || ClusterOf(order->second) != id.cluster) return "";
  return order->first;
}

std::map<std::string, int> NodesCome(const Model& model) {
  std::map<std::string, int> come;
  if (model.capacity_orders.empty()) return come;
  for (const auto& [id, node] : model.nodes) {
    std::string order = OrderOfNode(model, id, node);
    if (!order.empty()) ++come[std::move(order)];
  }
  return come;
}

bool OrderSeeker::MayHave(const Model& model, const rec::CapacityOrderRecord& record) {
  if (record.used() || !record.nominee_uid().empty()) return false;
  if (class_id_.empty()) {
    DemandNeed need = DemandNeed::Of(job_);
    class_id_ = DemandClassId(need.key);
    clusters_ = std::move(need.clusters);
  }
  if (!MayRunIn(clusters_, ClusterOf(record))) return false;
  if (!record.job_uid().empty()) {
    if (record.job_uid() == job_.uid()) return true;
    if (MayComeToWait(model.jobs.Glance(record.job_uid()))) return false;
  }
  return class_id_ == record.demand_class();
}

bool IsOverInTime(const rec::CapacityOrderRecord& record, absl::Duration duration, absl::Time now) {
  return record.order().has_expected_time() &&
         now + duration <= ToTime(record.order().expected_time());
}

CapacityOrder RenderCapacityOrder(const rec::CapacityOrderRecord& record, int nodes_come) {
  CapacityOrder order = record.order();
  order.set_state(record.used()                  ? CapacityOrder::STATE_USED
                  : record.nominee_uid().empty() ? CapacityOrder::STATE_OPEN
                                                 : CapacityOrder::STATE_NOMINATED);
  order.set_nominee(record.nominee());
  order.set_nodes_come(nodes_come);
  return order;
}

std::string OrdersInWords(const Model& model, absl::string_view uid) {
  std::string words;
  absl::optional<std::map<std::string, int>> come;
  for (const auto& [id, record] : model.capacity_orders) {
    if (record.used() || record.nominee_uid() != uid) continue;
    if (!come.has_value()) come = NodesCome(model);
    absl::StrAppend(&words, "; ", (*come)[id], " of ", record.order().nodes(), " Nodes of ",
                    record.order().name(), " have come, and are kept for it");
  }
  return words;
}

}  // namespace capstan::scheduler
