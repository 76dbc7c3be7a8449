#include "libs/kube/watch/payload.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "libs/kube/watch/wire.pb.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube::watch {
namespace {

constexpr char kInitialEventsEnd[] = "k8s.io/initial-events-end";

absl::Status ParseInto(absl::string_view object, Encoding encoding,
                       google::protobuf::Message* message) {
  bool ok = false;
  if (encoding == Encoding::kProtobuf) {
    ok = message->ParseFromArray(object.data(), static_cast<int>(object.size()));
  } else {
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    ok = google::protobuf::util::JsonStringToMessage(
             google::protobuf::StringPiece(object.data(), object.size()), message, options)
             .ok();
  }
  if (!ok) return Malformed("the object of a BOOKMARK or ERROR event cannot be read");
  return absl::OkStatus();
}

}  // namespace

absl::Status Malformed(absl::string_view what) {
  return status::Error(
      absl::StatusCode::kInvalidArgument, "WATCH_EVENT_MALFORMED",
      absl::StrCat("watch event: ", what,
                   "; expected a WatchEvent of the Kubernetes API, list and watch again"));
}

absl::StatusOr<EventType> ParseEventType(absl::string_view word) {
  if (word == "ADDED") return EventType::kAdded;
  if (word == "MODIFIED") return EventType::kModified;
  if (word == "DELETED") return EventType::kDeleted;
  if (word == "BOOKMARK") return EventType::kBookmark;
  if (word == "ERROR") return EventType::kError;
  return Malformed(absl::StrCat("its type is \"", absl::CHexEscape(word.substr(0, 32)), "\""));
}

absl::StatusOr<Event> MakeEvent(EventType type, absl::string_view object, Encoding encoding) {
  Event event;
  event.type = type;
  if (type == EventType::kBookmark) {
    WireObject bookmark;
    CAPSTAN_RETURN_IF_ERROR(ParseInto(object, encoding, &bookmark));
    event.resource_version = bookmark.metadata().resource_version();
    if (event.resource_version.empty()) return Malformed("a BOOKMARK has no resourceVersion");
    const auto& annotations = bookmark.metadata().annotations();
    const auto found = annotations.find(kInitialEventsEnd);
    event.initial_events_end = found != annotations.end() && found->second == "true";
    return event;
  }
  if (type == EventType::kError) {
    WireStatus wire;
    CAPSTAN_RETURN_IF_ERROR(ParseInto(object, encoding, &wire));
    event.status.code = wire.code();
    event.status.reason = wire.reason();
    event.status.message = wire.message();
    if (wire.details().retry_after() > 0) {
      event.status.retry_after = absl::Seconds(wire.details().retry_after());
    }
    return event;
  }
  event.object = object;
  return event;
}

}  // namespace capstan::kube::watch
