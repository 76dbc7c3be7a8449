#include "services/scheduler/core/node_terms.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/label/label.h"
#include "libs/label/taints.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::NodeRequirement;
using capstan::scheduler::v1::Toleration;
using capstan::type::v1::Taint;

namespace {

constexpr int kValuesInWords = 4;

// Unambiguous whatever the text holds.
std::string Sized(absl::string_view text) { return absl::StrCat(text.size(), ":", text); }

bool Tolerates(const Toleration& toleration, const Taint& taint) {
  if (!toleration.key().empty() && toleration.key() != taint.key()) return false;
  return toleration.any_value() || toleration.value() == taint.value();
}

std::string Sorted(std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  return absl::StrJoin(keys, "");
}

}  // namespace

bool Meets(const NodeLabels& labels, const NodeRequirement& requirement) {
  const auto label = labels.find(requirement.key());
  const bool is_there = label != labels.end();
  const auto is_one_of = [&] {
    return std::find(requirement.values().begin(), requirement.values().end(), label->second) !=
           requirement.values().end();
  };
  switch (requirement.operator_()) {
    case NodeRequirement::OPERATOR_IN:
      return is_there && is_one_of();
    case NodeRequirement::OPERATOR_NOT_IN:
      return !is_there || !is_one_of();
    case NodeRequirement::OPERATOR_EXISTS:
      return is_there;
    case NodeRequirement::OPERATOR_DOES_NOT_EXIST:
      return !is_there;
    default:
      // Of a version that knows more: what it asks for is not known to be so.
      return false;
  }
}

int FirstUnmet(const NodeLabels& labels, const NodeRequirements& requirements) {
  for (int i = 0; i < requirements.size(); ++i) {
    if (!Meets(labels, requirements[i])) return i;
  }
  return -1;
}

const Taint* FirstUntolerated(const Taints& taints, const Tolerations& tolerations) {
  for (const Taint& taint : taints) {
    const auto tolerates = [&taint](const Toleration& one) { return Tolerates(one, taint); };
    if (std::none_of(tolerations.begin(), tolerations.end(), tolerates)) return &taint;
  }
  return nullptr;
}

std::string KeyOf(const NodeRequirements& requirements) {
  std::vector<std::string> keys;
  for (const NodeRequirement& requirement : requirements) {
    std::vector<std::string> values;
    for (const std::string& value : requirement.values()) values.push_back(Sized(value));
    keys.push_back(absl::StrCat("?", static_cast<int>(requirement.operator_()), ",",
                                Sized(requirement.key()), requirement.values_size(), ",",
                                Sorted(std::move(values))));
  }
  return Sorted(std::move(keys));
}

std::string KeyOf(const Tolerations& tolerations) {
  std::vector<std::string> keys;
  for (const Toleration& toleration : tolerations) {
    keys.push_back(absl::StrCat("~", toleration.any_value() ? "*" : "=", Sized(toleration.key()),
                                Sized(toleration.value())));
  }
  return Sorted(std::move(keys));
}

NodeRequirements InOrder(NodeRequirements requirements) {
  for (NodeRequirement& requirement : requirements) {
    std::sort(requirement.mutable_values()->begin(), requirement.mutable_values()->end());
  }
  std::sort(requirements.begin(), requirements.end(),
            [](const NodeRequirement& a, const NodeRequirement& b) {
              if (a.key() != b.key()) return a.key() < b.key();
              if (a.operator_() != b.operator_()) return a.operator_() < b.operator_();
              return std::lexicographical_compare(a.values().begin(), a.values().end(),
                                                  b.values().begin(), b.values().end());
            });
  return requirements;
}

Tolerations InOrder(Tolerations tolerations) {
  std::sort(tolerations.begin(), tolerations.end(), [](const Toleration& a, const Toleration& b) {
    return std::make_tuple(a.key(), a.any_value(), a.value()) <
           std::make_tuple(b.key(), b.any_value(), b.value());
  });
  return tolerations;
}

void AddLabelKeys(const NodeRequirements& requirements, std::set<std::string>* keys) {
  for (const NodeRequirement& requirement : requirements) keys->insert(requirement.key());
}

void AddLabelKeys(const JobSpec& spec, std::set<std::string>* keys) {
  AddLabelKeys(spec.node_requirements(), keys);
  for (const auto& group : spec.task_groups()) AddLabelKeys(group.node_requirements(), keys);
}

std::string InWords(const NodeRequirement& requirement) {
  const auto values = [&requirement] {
    const int shown = std::min(requirement.values_size(), kValuesInWords);
    std::string words =
        absl::StrJoin(requirement.values().begin(), requirement.values().begin() + shown, ", ");
    if (shown < requirement.values_size()) {
      absl::StrAppend(&words, " and ", requirement.values_size() - shown, " more");
    }
    return absl::StrCat("[", words, "]");
  };
  switch (requirement.operator_()) {
    case NodeRequirement::OPERATOR_IN:
      return absl::StrCat(requirement.key(), " in ", values());
    case NodeRequirement::OPERATOR_NOT_IN:
      return absl::StrCat(requirement.key(), " not in ", values());
    case NodeRequirement::OPERATOR_EXISTS:
      return absl::StrCat(requirement.key(), " present");
    case NodeRequirement::OPERATOR_DOES_NOT_EXIST:
      return absl::StrCat(requirement.key(), " absent");
    default:
      return absl::StrCat(requirement.key(), ", of which only a newer version knows");
  }
}

std::string InWords(const Taint& taint) {
  return taint.value().empty() ? taint.key() : absl::StrCat(taint.key(), "=", taint.value());
}

void DropMalformedTaints(Taints* taints) {
  std::set<std::string> seen;
  int kept = 0;
  for (int i = 0; i < taints->size() && kept < label::kMaxTaints; ++i) {
    const Taint& taint = taints->Get(i);
    if (!label::IsKey(taint.key()) || !label::IsValue(taint.value())) continue;
    if (!seen.insert(taint.key()).second) continue;
    if (kept != i) taints->SwapElements(kept, i);
    ++kept;
  }
  taints->DeleteSubrange(kept, taints->size() - kept);
}

}  // namespace capstan::scheduler
