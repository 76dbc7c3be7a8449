#include "services/scheduler/core/round/traits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace capstan::scheduler::round {
namespace {

// Unambiguous whatever the string holds.
void AppendKey(std::string& key, const std::string& part) {
  absl::StrAppend(&key, part.size(), ":", part);
}

}  // namespace

bool Toleration::Tolerates(const Taint& taint) const {
  if (key.empty()) return any_value || value == taint.value;
  return key == taint.key && (any_value || value == taint.value);
}

bool SelectorTerm::Matches(const std::map<std::string, std::string>& labels) const {
  const auto found = labels.find(key);
  const bool matches =
      found != labels.end() &&
      (values.empty() || std::find(values.begin(), values.end(), found->second) != values.end());
  return matches != negated;
}

std::string Constraints::Key() const {
  std::string key;
  for (const SelectorTerm& term : selector) {
    absl::StrAppend(&key, term.negated ? "!" : "=", term.values.size(), ",");
    AppendKey(key, term.key);
    for (const std::string& value : term.values) AppendKey(key, value);
  }
  absl::StrAppend(&key, ";");
  for (const Toleration& toleration : tolerations) {
    absl::StrAppend(&key, toleration.any_value ? "*" : "=");
    AppendKey(key, toleration.key);
    AppendKey(key, toleration.value);
  }
  return key;
}

Admission Admit(const NodeTraits& node, const Constraints& constraints) {
  for (const SelectorTerm& term : constraints.selector) {
    if (!term.Matches(node.labels)) return Admission::kSelector;
  }
  for (const Taint& taint : node.taints) {
    const auto tolerates = [&taint](const Toleration& t) { return t.Tolerates(taint); };
    if (std::none_of(constraints.tolerations.begin(), constraints.tolerations.end(), tolerates)) {
      return Admission::kTaint;
    }
  }
  return Admission::kAdmitted;
}

}  // namespace capstan::scheduler::round
