// What a Job asks of Nodes beside room: what their labels say, and which taints it tolerates.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_NODE_TERMS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_NODE_TERMS_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/map.h"
#include "google/protobuf/repeated_field.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::scheduler {

using NodeLabels = google::protobuf::Map<std::string, std::string>;
using NodeRequirements =
    google::protobuf::RepeatedPtrField<capstan::scheduler::v1::NodeRequirement>;
using Tolerations = google::protobuf::RepeatedPtrField<capstan::scheduler::v1::Toleration>;
using Taints = google::protobuf::RepeatedPtrField<capstan::type::v1::Taint>;

bool Meets(const NodeLabels& labels, const capstan::scheduler::v1::NodeRequirement& requirement);
// Position of the first that the labels do not meet; -1 if they meet all.
int FirstUnmet(const NodeLabels& labels, const NodeRequirements& requirements);
// Null if all are tolerated.
const capstan::type::v1::Taint* FirstUntolerated(const Taints& taints,
                                                 const Tolerations& tolerations);

// Equal for those that ask for the same, in whatever order; empty of none. No two keys that follow
// each other can be taken for others.
std::string KeyOf(const NodeRequirements& requirements);
std::string KeyOf(const Tolerations& tolerations);

// The same in an order of their own, by key.
NodeRequirements InOrder(NodeRequirements requirements);
Tolerations InOrder(Tolerations tolerations);

// Keys of the labels that are asked by; also for the TaskGroups of a spec.
void AddLabelKeys(const NodeRequirements& requirements, std::set<std::string>* keys);
void AddLabelKeys(const capstan::scheduler::v1::JobSpec& spec, std::set<std::string>* keys);

// `nvidia.com/gpu.product in [a, b]`, `spot absent`; of many values the first.
std::string InWords(const capstan::scheduler::v1::NodeRequirement& requirement);
// `team=vision`; without a value `team`.
std::string InWords(const capstan::type::v1::Taint& taint);

// A Node's word is outside input. Of its taints those stay that are well-formed, the first of each
// key, and of these the first label::kMaxTaints.
void DropMalformedTaints(Taints* taints);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_NODE_TERMS_H_
