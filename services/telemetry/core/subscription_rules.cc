#include "services/telemetry/core/subscription_rules.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/status/error.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {
namespace {

constexpr char kPattern[] = "projects/{project}/subscriptions/{subscription}";
constexpr char kCollection[] = "/subscriptions/";

void CheckParent(const std::string& parent, status::FieldErrors* errors) {
  if (resource::ProjectName::Parse(parent).ok()) return;
  errors->Add("parent",
              absl::StrCat("is `", parent, "`; expected ", resource::ProjectName::kPattern));
}

void CheckName(const std::string& name, status::FieldErrors* errors) {
  if (resource::ParseName(kPattern, name).ok()) return;
  errors->Add("name", absl::StrCat("is `", name, "`; expected ", kPattern));
}

template <typename Request>
absl::Status CheckNameOf(const Request& request) {
  status::FieldErrors errors;
  CheckName(request.name(), &errors);
  return errors.ToStatus();
}

}  // namespace

absl::Status CheckCreateSubscription(const v1::CreateSubscriptionRequest& request) {
  status::FieldErrors errors;
  CheckParent(request.parent(), &errors);
  if (!resource::IsValidId(request.subscription_id())) {
    errors.Add("subscription_id",
               absl::StrCat("is `", request.subscription_id(), "`; expected ", resource::kIdRule));
  }
  if (!IsStreamName(request.stream()) ||
      !absl::StartsWith(request.stream(), absl::StrCat(request.parent(), "/"))) {
    errors.Add("stream", absl::StrCat("is `", request.stream(), "`; expected a Stream of ",
                                      request.parent(), ": ", request.parent(),
                                      "/jobs/{j}/streams/{log|events|metrics|usage}"));
  }
  if (!v1::CursorPosition_IsValid(request.position())) {
    errors.Add("position", absl::StrCat("is ", static_cast<int>(request.position()),
                                        "; expected oldest or newest"));
  }
  if (!request.request_id().empty() && !resource::IsValidUuid4(request.request_id())) {
    errors.Add("request_id", "expected a UUID4");
  }
  return errors.ToStatus();
}

absl::Status CheckGetSubscription(const v1::GetSubscriptionRequest& request) {
  return CheckNameOf(request);
}

absl::Status CheckListSubscriptions(const v1::ListSubscriptionsRequest& request) {
  status::FieldErrors errors;
  CheckParent(request.parent(), &errors);
  return errors.ToStatus();
}

absl::Status CheckDeleteSubscription(const v1::DeleteSubscriptionRequest& request) {
  return CheckNameOf(request);
}

absl::Status CheckSeekSubscription(const v1::SeekSubscriptionRequest& request) {
  status::FieldErrors errors;
  CheckName(request.name(), &errors);
  const bool placed = request.position() == v1::CURSOR_POSITION_OLDEST ||
                      request.position() == v1::CURSOR_POSITION_NEWEST;
  if (!placed && request.position() != v1::CURSOR_POSITION_UNSPECIFIED) {
    errors.Add("position", absl::StrCat("is ", static_cast<int>(request.position()),
                                        "; expected oldest or newest"));
  } else if (placed && request.next_offset() != 0) {
    errors.Add("next_offset", "can't be combined with position; expected one of them");
  } else if (!placed && request.next_offset() < 1) {
    errors.Add("next_offset", absl::StrCat("is ", request.next_offset(),
                                           "; expected 1 or more, or a position instead"));
  }
  return errors.ToStatus();
}

absl::Status CheckSubscribe(const v1::SubscribeRequest& request) { return CheckNameOf(request); }

absl::Status CheckAcknowledge(const v1::AcknowledgeRequest& request) {
  status::FieldErrors errors;
  CheckName(request.name(), &errors);
  if (request.offset() < 1) {
    errors.Add("offset", absl::StrCat("is ", request.offset(), "; expected 1 or more"));
  }
  if (request.reader_generation() < 0) {
    errors.Add("reader_generation",
               absl::StrCat("is ", request.reader_generation(), "; expected 0 or more"));
  }
  return errors.ToStatus();
}

std::string SubscriptionName(absl::string_view parent, absl::string_view id) {
  return absl::StrCat(parent, kCollection, id);
}

std::string ParentOfSubscription(absl::string_view name) {
  return std::string(name.substr(0, name.find(kCollection)));
}

}  // namespace capstan::telemetry
