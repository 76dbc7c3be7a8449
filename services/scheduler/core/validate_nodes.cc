#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/label/label.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::NodeRequirement;
using capstan::scheduler::v1::Toleration;

namespace {

void CheckKey(const std::string& field, const std::string& key, status::FieldErrors* errors) {
  if (label::IsKey(key)) return;
  errors->Add(field, absl::StrCat("is `", key, "`; expected ", label::kKeyRule));
}

void CheckValues(const std::string& field, const NodeRequirement& requirement,
                 status::FieldErrors* errors) {
  const NodeRequirement::Operator op = requirement.operator_();
  const int count = requirement.values_size();
  if (op == NodeRequirement::OPERATOR_EXISTS || op == NodeRequirement::OPERATOR_DOES_NOT_EXIST) {
    if (count == 0) return;
    errors->Add(field, absl::StrCat("has ", count, " entries; expected none with ",
                                    NodeRequirement::Operator_Name(op)));
    return;
  }
  if (op != NodeRequirement::OPERATOR_IN && op != NodeRequirement::OPERATOR_NOT_IN) return;
  if (count < 1 || count > kMaxRequirementValues) {
    errors->Add(field,
                absl::StrCat("has ", count, " entries; expected 1 to ", kMaxRequirementValues,
                             " with ", NodeRequirement::Operator_Name(op)));
    return;
  }
  std::set<std::string> seen;
  for (int i = 0; i < count; ++i) {
    const std::string& value = requirement.values(i);
    const std::string one = absl::StrCat(field, "[", i, "]");
    if (!label::IsValue(value)) {
      errors->Add(one, absl::StrCat("is `", value, "`; expected ", label::kValueRule));
    } else if (!seen.insert(value).second) {
      errors->Add(one, absl::StrCat("`", value, "` is named twice"));
    }
  }
}

void CheckRequirements(const std::string& path, const NodeRequirements& requirements,
                       status::FieldErrors* errors) {
  if (requirements.size() > kMaxNodeRequirements) {
    errors->Add(path, absl::StrCat("has ", requirements.size(), " entries; expected at most ",
                                   kMaxNodeRequirements));
    return;
  }
  for (int i = 0; i < requirements.size(); ++i) {
    const NodeRequirement& requirement = requirements[i];
    const std::string field = absl::StrCat(path, "[", i, "]");
    CheckKey(field + ".key", requirement.key(), errors);
    if (!NodeRequirement::Operator_IsValid(requirement.operator_()) ||
        requirement.operator_() == NodeRequirement::OPERATOR_UNSPECIFIED) {
      errors->Add(field + ".operator",
                  absl::StrCat("is ", static_cast<int>(requirement.operator_()),
                               "; expected OPERATOR_IN, OPERATOR_NOT_IN, OPERATOR_EXISTS or "
                               "OPERATOR_DOES_NOT_EXIST"));
    }
    CheckValues(field + ".values", requirement, errors);
  }
}

void CheckTolerations(const std::string& path, const Tolerations& tolerations,
                      status::FieldErrors* errors) {
  if (tolerations.size() > kMaxTolerations) {
    errors->Add(path, absl::StrCat("has ", tolerations.size(), " entries; expected at most ",
                                   kMaxTolerations));
    return;
  }
  for (int i = 0; i < tolerations.size(); ++i) {
    const Toleration& toleration = tolerations[i];
    const std::string field = absl::StrCat(path, "[", i, "]");
    if (!toleration.key().empty()) {
      CheckKey(field + ".key", toleration.key(), errors);
    } else if (!toleration.any_value()) {
      errors->Add(field + ".key",
                  "is empty; expected the key of a taint, or `any_value` for every taint");
    }
    if (toleration.any_value() && !toleration.value().empty()) {
      errors->Add(field + ".value", absl::StrCat("is `", toleration.value(),
                                                 "` beside `any_value`; expected one of them"));
    } else if (!label::IsValue(toleration.value())) {
      errors->Add(field + ".value",
                  absl::StrCat("is `", toleration.value(), "`; expected ", label::kValueRule));
    }
  }
}

}  // namespace

void ValidateNodeTerms(const JobSpec& spec, absl::string_view path, status::FieldErrors* errors) {
  CheckRequirements(absl::StrCat(path, ".node_requirements"), spec.node_requirements(), errors);
  CheckTolerations(absl::StrCat(path, ".tolerations"), spec.tolerations(), errors);
  for (int g = 0; g < spec.task_groups_size(); ++g) {
    CheckRequirements(absl::StrCat(path, ".task_groups[", g, "].node_requirements"),
                      spec.task_groups(g).node_requirements(), errors);
  }
}

}  // namespace capstan::scheduler
