#include "libs/auth/spiffe_id.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::auth {
namespace {

constexpr absl::string_view kScheme = "spiffe://";
constexpr size_t kMaxLength = 2048;

absl::Status Invalid(absl::string_view why) {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_SPIFFE_ID",
                       absl::StrCat("not a SPIFFE id of Capstan: ", why));
}

// First a letter (or a digit too), last a letter or digit, between them also `middle`.
bool IsSegment(absl::string_view text, size_t max_length, bool digit_first,
               absl::string_view middle) {
  const auto is_alnum = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  if (text.empty() || text.size() > max_length) return false;
  if (!absl::ascii_islower(text.front()) && !(digit_first && absl::ascii_isdigit(text.front()))) {
    return false;
  }
  if (!is_alnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alnum(c) || middle.find(c) != absl::string_view::npos;
  });
}

bool IsResourceId(absl::string_view text) { return IsSegment(text, 63, false, "-"); }
bool IsServiceName(absl::string_view text) { return IsSegment(text, 63, false, "_"); }
// Kubernetes names Nodes by DNS names.
bool IsNodeName(absl::string_view text) { return IsSegment(text, 253, true, "-."); }
bool IsUid(absl::string_view text) { return IsSegment(text, 63, true, "-"); }

// Canonical decimal: no sign, no leading zero.
template <typename Int>
bool ParseNumber(absl::string_view text, Int* value) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  if (!std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); })) {
    return false;
  }
  return absl::SimpleAtoi(text, value);
}

absl::Status ParseTaskPath(const std::vector<absl::string_view>& parts, SpiffeId& id) {
  if (parts[4] != "job" || parts[6] != "gen" || parts[8] != "task") {
    return Invalid("expected /project/<p>/sa/<a>/job/<uid>/gen/<n>/task/<group>-<i>");
  }
  id.kind = SpiffeId::Kind::kTask;
  id.job_uid = std::string(parts[5]);
  const size_t dash = parts[9].rfind('-');
  if (!IsUid(parts[5]) || !ParseNumber(parts[7], &id.generation) ||
      dash == absl::string_view::npos || !IsResourceId(parts[9].substr(0, dash)) ||
      !ParseNumber(parts[9].substr(dash + 1), &id.index)) {
    return Invalid("bad job uid, generation, group or index");
  }
  id.group = std::string(parts[9].substr(0, dash));
  return absl::OkStatus();
}

}  // namespace

bool IsTrustDomain(absl::string_view text) {
  if (text.empty() || text.size() > 255) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '.' || c == '-' || c == '_';
  });
}

SpiffeId SpiffeId::Service(absl::string_view trust_domain, absl::string_view service) {
  SpiffeId id;
  id.kind = Kind::kService;
  id.trust_domain = std::string(trust_domain);
  id.service = std::string(service);
  return id;
}

SpiffeId SpiffeId::Executor(absl::string_view trust_domain, absl::string_view cluster) {
  SpiffeId id;
  id.kind = Kind::kExecutor;
  id.trust_domain = std::string(trust_domain);
  id.cluster = std::string(cluster);
  return id;
}

SpiffeId SpiffeId::Node(absl::string_view trust_domain, absl::string_view cluster,
                        absl::string_view node) {
  SpiffeId id;
  id.kind = Kind::kNode;
  id.trust_domain = std::string(trust_domain);
  id.cluster = std::string(cluster);
  id.node = std::string(node);
  return id;
}

SpiffeId SpiffeId::ServiceAccount(absl::string_view trust_domain, absl::string_view project,
                                  absl::string_view service_account) {
  SpiffeId id;
  id.kind = Kind::kServiceAccount;
  id.trust_domain = std::string(trust_domain);
  id.project = std::string(project);
  id.service_account = std::string(service_account);
  return id;
}

SpiffeId SpiffeId::Task(absl::string_view trust_domain, absl::string_view project,
                        absl::string_view service_account, absl::string_view job_uid,
                        int64_t generation, absl::string_view group, int32_t index) {
  SpiffeId id = ServiceAccount(trust_domain, project, service_account);
  id.kind = Kind::kTask;
  id.job_uid = std::string(job_uid);
  id.generation = generation;
  id.group = std::string(group);
  id.index = index;
  return id;
}

SpiffeId SpiffeId::Person(absl::string_view trust_domain, absl::string_view uid) {
  SpiffeId id;
  id.kind = Kind::kPerson;
  id.trust_domain = std::string(trust_domain);
  id.person = std::string(uid);
  return id;
}

absl::StatusOr<SpiffeId> SpiffeId::Parse(absl::string_view text) {
  if (text.size() > kMaxLength) return Invalid("longer than 2048 bytes");
  if (text.substr(0, kScheme.size()) != kScheme) return Invalid("must start with spiffe://");
  text.remove_prefix(kScheme.size());
  const size_t slash = text.find('/');
  if (slash == absl::string_view::npos) return Invalid("has no path");
  return ParsePath(text.substr(0, slash), text.substr(slash));
}

absl::StatusOr<SpiffeId> SpiffeId::ParsePath(absl::string_view trust_domain,
                                             absl::string_view path) {
  if (!IsTrustDomain(trust_domain)) return Invalid("bad trust domain");
  if (path.size() > kMaxLength) return Invalid("longer than 2048 bytes");
  if (path.empty() || path[0] != '/') return Invalid("the path must start with /");
  const std::vector<absl::string_view> parts = absl::StrSplit(path.substr(1), '/');
  SpiffeId id;
  id.trust_domain = std::string(trust_domain);
  if (parts.size() == 2 && parts[0] == "svc" && IsServiceName(parts[1])) {
    id.kind = Kind::kService;
    id.service = std::string(parts[1]);
    return id;
  }
  if (parts.size() == 2 && parts[0] == "executor" && IsResourceId(parts[1])) {
    id.kind = Kind::kExecutor;
    id.cluster = std::string(parts[1]);
    return id;
  }
  if (parts.size() == 3 && parts[0] == "node" && IsResourceId(parts[1]) && IsNodeName(parts[2])) {
    id.kind = Kind::kNode;
    id.cluster = std::string(parts[1]);
    id.node = std::string(parts[2]);
    return id;
  }
  if (parts.size() == 2 && parts[0] == "person" && IsUid(parts[1])) {
    id.kind = Kind::kPerson;
    id.person = std::string(parts[1]);
    return id;
  }
  if (parts.size() >= 4 && parts[0] == "project" && IsResourceId(parts[1]) && parts[2] == "sa" &&
      IsResourceId(parts[3])) {
    id.kind = Kind::kServiceAccount;
    id.project = std::string(parts[1]);
    id.service_account = std::string(parts[3]);
    if (parts.size() == 4) return id;
    if (parts.size() == 10) {
      CAPSTAN_RETURN_IF_ERROR(ParseTaskPath(parts, id));
      return id;
    }
  }
  return Invalid(
      "the path is none of /svc/<s>, /executor/<c>, /node/<c>/<n>, /person/<uid>, "
      "/project/<p>/sa/<a>[/job/<uid>/gen/<n>/task/<group>-<i>]");
}

std::string SpiffeId::Path() const {
  switch (kind) {
    case Kind::kService:
      return absl::StrCat("/svc/", service);
    case Kind::kExecutor:
      return absl::StrCat("/executor/", cluster);
    case Kind::kNode:
      return absl::StrCat("/node/", cluster, "/", node);
    case Kind::kServiceAccount:
      return absl::StrCat("/project/", project, "/sa/", service_account);
    case Kind::kTask:
      return absl::StrCat("/project/", project, "/sa/", service_account, "/job/", job_uid, "/gen/",
                          generation, "/task/", group, "-", index);
    case Kind::kPerson:
      return absl::StrCat("/person/", person);
  }
  return "";
}

std::string SpiffeId::ToString() const { return absl::StrCat(kScheme, trust_domain, Path()); }

}  // namespace capstan::auth
