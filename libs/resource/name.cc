#include "libs/resource/name.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::resource {
namespace {

constexpr char kHexPrefix[] = "{hex:";
constexpr size_t kMaxHexLength = 64;
// Longer names are not even quoted in the error.
constexpr size_t kMaxNameLength = 512;

bool IsVariable(absl::string_view segment) { return absl::StartsWith(segment, "{"); }

bool IsHex(absl::string_view text) {
  if (text.empty() || text.size() > kMaxHexLength) return false;
  for (const char c : text) {
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return false;
  }
  return true;
}

absl::Status InvalidName(absl::string_view pattern, absl::string_view name,
                         absl::string_view detail) {
  const std::string shown(name.substr(0, kMaxNameLength));
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_NAME",
                       absl::StrCat("'", shown, "' is not of the form ", pattern, ": ", detail),
                       {{"name", shown}, {"pattern", std::string(pattern)}});
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseName(absl::string_view pattern,
                                                   absl::string_view name) {
  if (name.size() > kMaxNameLength) return InvalidName(pattern, name, "too long");
  const std::vector<absl::string_view> expected = absl::StrSplit(pattern, '/');
  const std::vector<absl::string_view> found = absl::StrSplit(name, '/');
  if (found.size() != expected.size()) {
    return InvalidName(pattern, name,
                       absl::StrCat("has ", found.size(), " segments, not ", expected.size()));
  }
  std::vector<std::string> values;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!IsVariable(expected[i])) {
      if (found[i] != expected[i]) {
        return InvalidName(pattern, name, absl::StrCat("expected '", expected[i], "'"));
      }
      continue;
    }
    if (absl::StartsWith(expected[i], kHexPrefix)) {
      if (!IsHex(found[i])) {
        return InvalidName(pattern, name,
                           absl::StrCat("'", found[i], "' is not 1 to 64 lower-case hex digits"));
      }
    } else if (!IsValidId(found[i])) {
      return InvalidName(pattern, name, absl::StrCat("'", found[i], "' is not ", kIdRule));
    }
    values.emplace_back(found[i]);
  }
  return values;
}

std::string FormatName(absl::string_view pattern, std::initializer_list<absl::string_view> values) {
  std::string name;
  auto value = values.begin();
  for (const absl::string_view segment : absl::StrSplit(pattern, '/')) {
    if (!name.empty()) name.push_back('/');
    if (IsVariable(segment) && value != values.end()) {
      absl::StrAppend(&name, *value++);
    } else {
      absl::StrAppend(&name, segment);
    }
  }
  return name;
}

absl::StatusOr<ProjectName> ProjectName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return ProjectName{std::move(v[0])};
}

absl::StatusOr<JobName> JobName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return JobName{std::move(v[0]), std::move(v[1])};
}

absl::StatusOr<MaintenanceWindowName> MaintenanceWindowName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return MaintenanceWindowName{std::move(v[0]), std::move(v[1])};
}

absl::StatusOr<OutputName> OutputName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return OutputName{std::move(v[0]), std::move(v[1])};
}

absl::StatusOr<JobStreamName> JobStreamName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return JobStreamName{std::move(v[0]), std::move(v[1]), std::move(v[2])};
}

absl::StatusOr<ServiceAccountName> ServiceAccountName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return ServiceAccountName{std::move(v[0]), std::move(v[1])};
}

absl::StatusOr<RoleBindingName> RoleBindingName::Parse(absl::string_view name) {
  if (absl::StartsWith(name, "roleBindings/")) {
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kDomainPattern, name));
    return RoleBindingName{"", std::move(v[0])};
  }
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return RoleBindingName{std::move(v[0]), std::move(v[1])};
}

std::string RoleBindingName::ToString() const {
  if (project.empty()) return FormatName(kDomainPattern, {binding});
  return FormatName(kPattern, {project, binding});
}

absl::StatusOr<DatasetName> DatasetName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return DatasetName{std::move(v[0]), std::move(v[1])};
}

absl::StatusOr<DatasetVersionName> DatasetVersionName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return DatasetVersionName{std::move(v[0]), std::move(v[1]), std::move(v[2])};
}

absl::StatusOr<DataLoadName> DataLoadName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return DataLoadName{std::move(v[0]), std::move(v[1])};
}

absl::StatusOr<BundleName> BundleName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return BundleName{std::move(v[0]), std::move(v[1])};
}

absl::StatusOr<QueueName> QueueName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return QueueName{std::move(v[0])};
}

absl::StatusOr<CapacityOrderName> CapacityOrderName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return CapacityOrderName{std::move(v[0])};
}

absl::StatusOr<SiteName> SiteName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return SiteName{std::move(v[0])};
}

absl::StatusOr<ClusterName> ClusterName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return ClusterName{std::move(v[0])};
}

absl::StatusOr<NodeName> NodeName::Parse(absl::string_view name) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> v, ParseName(kPattern, name));
  return NodeName{std::move(v[0]), std::move(v[1])};
}

}  // namespace capstan::resource
