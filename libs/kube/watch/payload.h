// The parts of events that a watch itself understands.
#ifndef CAPSTAN_LIBS_KUBE_WATCH_PAYLOAD_H_
#define CAPSTAN_LIBS_KUBE_WATCH_PAYLOAD_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/watch/decoder.h"

namespace capstan::kube::watch {

absl::Status Malformed(absl::string_view what);

// Of the event's `type`, e.g. `ADDED`.
absl::StatusOr<EventType> ParseEventType(absl::string_view word);

// Makes the event of `type` with `object`, which for bookmarks and errors is read here.
absl::StatusOr<Event> MakeEvent(EventType type, absl::string_view object, Encoding encoding);

}  // namespace capstan::kube::watch

#endif  // CAPSTAN_LIBS_KUBE_WATCH_PAYLOAD_H_
