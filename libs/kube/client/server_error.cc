#include "libs/kube/client/server_error.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "libs/kube/client/response.h"
#include "libs/kube/objects/proto/meta_v1.pb.h"
#include "libs/kube/objects/protobuf_envelope.h"
#include "libs/status/error.h"
#include "libs/utf8/utf8.h"
#include "proto/google/rpc/error_details.pb.h"

namespace capstan::kube {
namespace {

using absl::StatusCode;
using k8s::io::apimachinery::pkg::apis::meta::v1::Status;

constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr size_t kMaxMessage = 4096;
constexpr size_t kMaxCauseMessage = 512;
constexpr int kMaxCauses = 100;
constexpr absl::Duration kMaxRetryAfter = absl::Hours(1);

struct Mapping {
  int http;
  // metav1.StatusReason, from k8s.io/apimachinery/pkg/apis/meta/v1/types.go.
  const char* kube;
  StatusCode code;
  const char* reason;
  const char* advice;
};

// By `kube` first; then the first with the status of HTTP.
constexpr Mapping kMappings[] = {
    {400, "BadRequest", StatusCode::kInvalidArgument, kServerRefused, "mend the request"},
    {401, "Unauthorized", StatusCode::kUnauthenticated, kUnauthorized,
     "the credential is not one that the server knows"},
    {403, "Forbidden", StatusCode::kPermissionDenied, kForbidden,
     "grant it by a Role, or satisfy the admission policy that the message names"},
    {404, "NotFound", StatusCode::kNotFound, kNotFound, "it is not there, or not any more"},
    {405, "MethodNotAllowed", StatusCode::kUnimplemented, kUnsupported,
     "the resource does not have this verb"},
    {406, "NotAcceptable", StatusCode::kUnimplemented, kUnsupported,
     "the server does not write what was asked for"},
    {409, "Conflict", StatusCode::kAborted, kConflict, "read it anew and decide again"},
    {409, "AlreadyExists", StatusCode::kAlreadyExists, kAlreadyExists,
     "read it, or take another name"},
    {410, "Expired", StatusCode::kOutOfRange, kExpired, "begin anew with a list"},
    {410, "Gone", StatusCode::kOutOfRange, kExpired, "begin anew with a list"},
    {413, "RequestEntityTooLarge", StatusCode::kInvalidArgument, kServerRefused,
     "make the object smaller"},
    {415, "UnsupportedMediaType", StatusCode::kUnimplemented, kUnsupported,
     "the server does not read what was sent"},
    {422, "Invalid", StatusCode::kInvalidArgument, kInvalid, "mend the fields"},
    {429, "TooManyRequests", StatusCode::kResourceExhausted, kTooManyRequests, "ask later"},
    {500, "InternalError", StatusCode::kInternal, kServerFailed, "look into the server's log"},
    {500, "ServerTimeout", StatusCode::kUnavailable, kServerFailed, "ask later"},
    {500, "StorageReadError", StatusCode::kInternal, kServerFailed,
     "the server cannot read what it has stored"},
    {501, "", StatusCode::kUnimplemented, kUnsupported, "the server does not have this"},
    {502, "", StatusCode::kUnavailable, kServerFailed, "ask later"},
    {503, "ServiceUnavailable", StatusCode::kUnavailable, kServerFailed, "ask later"},
    {504, "Timeout", StatusCode::kDeadlineExceeded, kServerTimeout,
     "see whether it was done, then ask again"},
};

constexpr Mapping kRedirect = {300, "", StatusCode::kFailedPrecondition, kServerRefused,
                               "give the server's own address"};
constexpr Mapping kOther4xx = {400, "", StatusCode::kInvalidArgument, kServerRefused,
                               "mend the request"};
constexpr Mapping kOther5xx = {500, "", StatusCode::kInternal, kServerFailed,
                               "look into the server's log"};
constexpr Mapping kMissing = {404, "", StatusCode::kFailedPrecondition, kApiMissing,
                              "the server lacks this API: install it, or ask for a version that "
                              "discovery lists"};
constexpr Mapping kUnknownField = {400, "", StatusCode::kFailedPrecondition, kFieldUnknown,
                                   "the server's version of this API lacks the fields"};
constexpr Mapping kTerminating = {403, "", StatusCode::kFailedPrecondition, kNamespaceTerminating,
                                  "the namespace is being deleted and takes nothing new"};
constexpr Mapping kBudget = {429, "", StatusCode::kResourceExhausted, kDisruptionBudget,
                             "a PodDisruptionBudget allows no eviction now; ask later"};
constexpr Mapping kManagers = {409, "", StatusCode::kAborted, kApplyConflict,
                               "give the fields up, agree with their managers, or force"};

absl::optional<Status> ReadStatus(absl::string_view body) {
  body = body.substr(0, kMaxErrorBytes);
  Status read;
  if (absl::StartsWith(body, "k8s")) {
    const auto envelope = ParseProtobufEnvelope(body);
    if (!envelope.ok() || envelope->kind != "Status" ||
        !read.ParseFromArray(envelope->raw.data(), static_cast<int>(envelope->raw.size()))) {
      return absl::nullopt;
    }
  } else {
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    if (!google::protobuf::util::JsonStringToMessage(
             google::protobuf::StringPiece(body.data(), body.size()), &read, options)
             .ok()) {
      return absl::nullopt;
    }
  }
  if (read.status() != "Failure") return absl::nullopt;
  return read;
}

bool HasCause(const Status& read, absl::string_view reason) {
  return std::any_of(read.details().causes().begin(), read.details().causes().end(),
                     [&](const auto& cause) { return cause.reason() == reason; });
}

// Both a strict decoder's and an apply's words for a field that is not in the server's schema.
bool NamesUnknownField(const Status& read) {
  return absl::StrContains(read.message(), "unknown field \"") ||
         absl::StrContains(read.message(), "field not declared in schema");
}

const Mapping& ByHttp(int http_status) {
  for (const Mapping& mapping : kMappings) {
    if (mapping.http == http_status) return mapping;
  }
  if (http_status < 400) return kRedirect;
  return http_status < 500 ? kOther4xx : kOther5xx;
}

const Mapping& Map(int http_status, const absl::optional<Status>& read) {
  // The router's answer and a proxy's name no object.
  const bool names_object = read.has_value() && !read->details().name().empty();
  if (http_status == 404 && !names_object) return kMissing;
  if (!read.has_value()) return ByHttp(http_status);
  if (HasCause(*read, "NamespaceTerminating")) return kTerminating;
  if (HasCause(*read, "DisruptionBudget")) return kBudget;
  if (HasCause(*read, "FieldManagerConflict")) return kManagers;
  if (NamesUnknownField(*read)) return kUnknownField;
  for (const Mapping& mapping : kMappings) {
    if (mapping.kube[0] != '\0' && read->reason() == mapping.kube) return mapping;
  }
  return ByHttp(http_status);
}

std::string Bounded(absl::string_view text, size_t most) {
  return text.size() <= most ? std::string(text) : absl::StrCat(text.substr(0, most), "…");
}

// `strict decoding error: unknown field "spec.a", unknown field "spec.b"`.
void AddUnknownFields(absl::string_view message, google::rpc::BadRequest* bad) {
  constexpr absl::string_view kWords = "unknown field \"";
  size_t at = 0;
  while (bad->field_violations_size() < kMaxCauses &&
         (at = message.find(kWords, at)) != absl::string_view::npos) {
    at += kWords.size();
    const size_t end = message.find('"', at);
    if (end == absl::string_view::npos) return;
    auto* violation = bad->add_field_violations();
    violation->set_field(ToUtf8(Bounded(message.substr(at, end - at), kMaxCauseMessage)));
    violation->set_description("the server does not know this field");
    at = end;
  }
}

void AddCauses(const Mapping& mapping, const Status& read, absl::Status* status) {
  google::rpc::BadRequest bad;
  for (const auto& cause : read.details().causes()) {
    if (bad.field_violations_size() == kMaxCauses) break;
    if (cause.field().empty()) continue;
    auto* violation = bad.add_field_violations();
    violation->set_field(ToUtf8(Bounded(cause.field(), kMaxCauseMessage)));
    violation->set_description(ToUtf8(Bounded(cause.message(), kMaxCauseMessage)));
  }
  if (mapping.reason == kFieldUnknown) AddUnknownFields(read.message(), &bad);
  if (bad.field_violations_size() > 0) {
    status->SetPayload(kBadRequestUrl, absl::Cord(bad.SerializeAsString()));
  }
}

absl::optional<absl::Duration> ReadRetryAfter(const std::vector<HttpHeader>& headers,
                                              const absl::optional<Status>& read) {
  int64_t whole = 0;
  const absl::optional<absl::string_view> header = FindHeader(headers, "Retry-After");
  const bool said = header.has_value() && absl::SimpleAtoi(*header, &whole);
  if (!said && read.has_value() && read->details().has_retry_after_seconds()) {
    whole = read->details().retry_after_seconds();
  } else if (!said) {
    return absl::nullopt;
  }
  if (whole <= 0) return absl::nullopt;
  return std::min(absl::Seconds(whole), kMaxRetryAfter);
}

bool ReasonIs(const absl::Status& status, absl::string_view reason) {
  return !status.ok() && status::Reason(status) == reason;
}

}  // namespace

absl::Status ServerError(int http_status, const std::vector<HttpHeader>& headers,
                         absl::string_view body) {
  const absl::optional<Status> read = ReadStatus(body);
  const Mapping& mapping = Map(http_status, read);
  std::map<std::string, std::string> metadata = {{"http_status", absl::StrCat(http_status)}};
  const auto add = [&](const char* key, absl::string_view value) {
    if (!value.empty()) metadata[key] = Bounded(value, kMaxCauseMessage);
  };
  std::string said;
  if (read.has_value()) {
    add("kube_reason", read->reason());
    add("group", read->details().group());
    add("kind", read->details().kind());
    add("name", read->details().name());
    said = Bounded(read->message(), kMaxMessage);
  } else {
    said = "it gave no Status, so that a proxy may have answered";
  }
  const FlowControl flow = ReadFlowControl(headers);
  add("flow_schema_uid", flow.flow_schema_uid);
  add("priority_level_uid", flow.priority_level_uid);
  absl::Status status = status::Error(mapping.code, mapping.reason,
                                      absl::StrCat("the Kubernetes API server answered ",
                                                   http_status, ": ", said, "; ", mapping.advice),
                                      std::move(metadata));
  if (read.has_value()) AddCauses(mapping, *read, &status);
  if (const auto delay = ReadRetryAfter(headers, read)) {
    status = status::WithRetryDelay(std::move(status), *delay);
  }
  return status;
}

int HttpStatusOf(const absl::Status& status) {
  const auto info = status::GetErrorInfo(status);
  int http_status = 0;
  if (!info.has_value() || info->domain != status::kDomain) return 0;
  const auto found = info->metadata.find("http_status");
  if (found == info->metadata.end() || !absl::SimpleAtoi(found->second, &http_status)) return 0;
  return http_status;
}

bool IsConflict(const absl::Status& status) {
  return ReasonIs(status, kConflict) || ReasonIs(status, kApplyConflict);
}
bool IsExpired(const absl::Status& status) { return ReasonIs(status, kExpired); }
bool IsTooManyRequests(const absl::Status& status) { return ReasonIs(status, kTooManyRequests); }

absl::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  return HttpStatusOf(status) == 0 ? absl::nullopt : status::GetRetryDelay(status);
}

std::vector<ApplyConflict> ApplyConflicts(const absl::Status& status) {
  std::vector<ApplyConflict> conflicts;
  if (!ReasonIs(status, kApplyConflict)) return conflicts;
  for (const status::FieldViolation& violation : status::GetFieldViolations(status)) {
    // `conflict with "kubectl" using apps/v1 at 2026-01-01T00:00:00Z`, quoted by Go's %q: from
    // k8s.io/apiserver's NewConflictError. It is the only place where the manager is said.
    const absl::string_view text = violation.description;
    const size_t begin = text.find('"');
    if (begin == absl::string_view::npos) continue;
    ApplyConflict conflict{"", violation.field};
    size_t at = begin + 1;
    for (; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      conflict.manager += text[at];
    }
    if (at < text.size()) conflicts.push_back(std::move(conflict));
  }
  return conflicts;
}

}  // namespace capstan::kube
