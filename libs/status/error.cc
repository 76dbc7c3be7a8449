#include "libs/status/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "libs/utf8/utf8.h"
#include "proto/google/rpc/error_details.pb.h"

namespace capstan::status {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

template <typename Message>
absl::optional<Message> GetPayload(const absl::Status& status, absl::string_view url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  if (!payload.has_value()) return absl::nullopt;
  Message message;
  if (!message.ParseFromString(std::string(*payload))) return absl::nullopt;
  return message;
}

// Equal errors have equal bytes in every process: the order of a map's entries is not left to it.
template <typename Message>
void SetPayload(absl::Status& status, absl::string_view url, const Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  status.SetPayload(url, absl::Cord(bytes));
}

}  // namespace

absl::Status Error(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                   std::map<std::string, std::string> metadata) {
  // What an error quotes may be any bytes; a proto's text that is no UTF-8 makes its reader refuse
  // the whole of it, and with it the reason.
  absl::Status status(code, ToUtf8(message));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  for (auto& [key, value] : metadata) value = ToUtf8(value);
  info.mutable_metadata()->insert(metadata.begin(), metadata.end());
  SetPayload(status, kErrorInfoUrl, info);
  return status;
}

absl::optional<ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const auto info = GetPayload<google::rpc::ErrorInfo>(status, kErrorInfoUrl);
  if (!info.has_value()) return absl::nullopt;
  ErrorInfo result{info->reason(), info->domain(), {}};
  for (const auto& [key, value] : info->metadata()) result.metadata[key] = value;
  return result;
}

std::string Reason(const absl::Status& status) {
  const absl::optional<ErrorInfo> info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "";
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  const int64_t ns = absl::ToInt64Nanoseconds(delay);
  info.mutable_retry_delay()->set_seconds(ns / 1'000'000'000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(ns % 1'000'000'000));
  SetPayload(status, kRetryInfoUrl, info);
  return status;
}

absl::optional<absl::Duration> GetRetryDelay(const absl::Status& status) {
  const auto info = GetPayload<google::rpc::RetryInfo>(status, kRetryInfoUrl);
  if (!info.has_value()) return absl::nullopt;
  return absl::Seconds(info->retry_delay().seconds()) +
         absl::Nanoseconds(info->retry_delay().nanos());
}

std::vector<FieldViolation> GetFieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> result;
  const auto bad = GetPayload<google::rpc::BadRequest>(status, kBadRequestUrl);
  if (!bad.has_value()) return result;
  for (const auto& violation : bad->field_violations()) {
    result.push_back({violation.field(), violation.description()});
  }
  return result;
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

absl::Status PermissionDenied(absl::string_view permission, absl::string_view resource) {
  return Error(absl::StatusCode::kPermissionDenied, "PERMISSION_DENIED",
               absl::StrCat("Permission '", permission, "' denied on resource '", resource,
                            "' (or it might not exist)."),
               {{"permission", std::string(permission)}, {"resource", std::string(resource)}});
}

absl::Status NotFound(absl::string_view resource) {
  return Error(absl::StatusCode::kNotFound, "RESOURCE_NOT_FOUND",
               absl::StrCat("Resource '", resource, "' was not found."),
               {{"resource", std::string(resource)}});
}

void FieldErrors::Add(absl::string_view field, absl::string_view description) {
  violations_.push_back({std::string(field), std::string(description)});
}

absl::Status FieldErrors::ToStatus() const {
  if (violations_.empty()) return absl::OkStatus();
  std::string message =
      absl::StrCat(violations_.front().field, ": ", violations_.front().description);
  if (violations_.size() > 1) {
    absl::StrAppend(&message, " (and ", violations_.size() - 1, " more)");
  }
  absl::Status status = Error(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", message,
                              {{"field", violations_.front().field}});
  google::rpc::BadRequest bad;
  for (const FieldViolation& violation : violations_) {
    auto* added = bad.add_field_violations();
    added->set_field(ToUtf8(violation.field));
    added->set_description(ToUtf8(violation.description));
  }
  SetPayload(status, kBadRequestUrl, bad);
  return status;
}

}  // namespace capstan::status
