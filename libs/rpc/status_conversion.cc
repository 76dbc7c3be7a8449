#include "libs/rpc/status_conversion.h"

#include <iterator>
#include <map>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "google/protobuf/any.pb.h"
#include "proto/google/rpc/error_details.pb.h"

namespace capstan::rpc {
namespace {

constexpr size_t kMaxMessage = 1024;
// Of a word of an ErrorInfo that is too long as a whole.
constexpr size_t kMaxWord = 256;
// Base64 makes a third more of it, and the message is in it once more.
constexpr size_t kMaxDetails = 4096;

absl::StatusCode CanonicalCode(int code) {
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::StatusCode::kUnknown;
  }
  return static_cast<absl::StatusCode>(code);
}

// Cuts at a character border of UTF-8.
std::string Truncate(absl::string_view text, size_t max) {
  if (text.size() <= max) return std::string(text);
  size_t end = max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

// Drops field violations from the end until `proto` fits; true if it does.
bool TrimViolations(google::rpc::Status& proto) {
  for (google::protobuf::Any& any : *proto.mutable_details()) {
    google::rpc::BadRequest bad;
    if (!any.Is<google::rpc::BadRequest>() || !any.UnpackTo(&bad)) continue;
    while (proto.ByteSizeLong() > kMaxDetails && bad.field_violations_size() > 1) {
      bad.mutable_field_violations()->RemoveLast();
      any.PackFrom(bad);
    }
  }
  return proto.ByteSizeLong() <= kMaxDetails;
}

// Cuts the longest words of an ErrorInfo, then leaves them out, the last by name first. Its reason
// stays.
void TrimMetadata(google::rpc::Status& proto) {
  for (google::protobuf::Any& any : *proto.mutable_details()) {
    google::rpc::ErrorInfo info;
    if (!any.Is<google::rpc::ErrorInfo>() || !any.UnpackTo(&info)) continue;
    std::map<std::string, std::string> kept;
    for (const auto& [key, value] : info.metadata()) kept[key] = Truncate(value, kMaxWord);
    const auto pack = [&] {
      info.mutable_metadata()->clear();
      for (const auto& [key, value] : kept) (*info.mutable_metadata())[key] = value;
      any.PackFrom(info);
    };
    for (pack(); proto.ByteSizeLong() > kMaxDetails && !kept.empty(); pack()) {
      kept.erase(std::prev(kept.end()));
    }
  }
}

void FitIntoTrailer(google::rpc::Status& proto) {
  if (proto.ByteSizeLong() <= kMaxDetails || TrimViolations(proto)) return;
  for (int i = proto.details_size() - 1; i >= 0 && proto.ByteSizeLong() > kMaxDetails; --i) {
    if (!proto.details(i).Is<google::rpc::ErrorInfo>()) {
      proto.mutable_details()->DeleteSubrange(i, 1);
    }
  }
  if (proto.ByteSizeLong() > kMaxDetails) TrimMetadata(proto);
}

}  // namespace

google::rpc::Status ToStatusProto(const absl::Status& status) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  // By URL: the order of absl's payloads depends on hashing.
  std::map<std::string, std::string> payloads;
  status.ForEachPayload([&payloads](absl::string_view url, const absl::Cord& payload) {
    payloads.emplace(std::string(url), std::string(payload));
  });
  for (auto& [url, payload] : payloads) {
    google::protobuf::Any* any = proto.add_details();
    any->set_type_url(url);
    any->set_value(std::move(payload));
  }
  return proto;
}

absl::Status FromStatusProto(const google::rpc::Status& proto) {
  absl::Status status(CanonicalCode(proto.code()), proto.message());
  for (const google::protobuf::Any& any : proto.details()) {
    status.SetPayload(any.type_url(), absl::Cord(any.value()));
  }
  return status;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Truncate(status.message(), kMaxMessage);
  google::rpc::Status proto = ToStatusProto(status);
  if (proto.details_size() == 0) {
    return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
  }
  proto.set_message(message);
  FitIntoTrailer(proto);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      proto.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(CanonicalCode(static_cast<int>(status.error_code())), status.error_message());
  google::rpc::Status proto;
  if (!status.error_details().empty() && proto.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& any : proto.details()) {
      result.SetPayload(any.type_url(), absl::Cord(any.value()));
    }
  }
  return result;
}

}  // namespace capstan::rpc
