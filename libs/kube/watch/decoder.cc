#include "libs/kube/watch/decoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube::watch {

void Decoder::Append(absl::string_view bytes) {
  if (!failure_.ok()) return;
  // What was read goes once it is the larger part: each byte is moved a bounded number of times.
  if (begin_ > buffer_.size() / 2) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_.append(bytes.data(), bytes.size());
}

absl::StatusOr<absl::optional<Event>> Decoder::Next() {
  while (failure_.ok()) {
    const absl::string_view rest = absl::string_view(buffer_).substr(begin_);
    absl::StatusOr<Frame> frame = FindFrame(rest, scanned_);
    if (!frame.ok()) {
      failure_ = frame.status();
      break;
    }
    if ((frame->bytes == 0 ? rest.size() : frame->body.size()) > max_event_bytes_ + 4) {
      failure_ = status::Error(
          absl::StatusCode::kResourceExhausted, "WATCH_EVENT_TOO_LARGE",
          absl::StrCat("a watch event has more than ", max_event_bytes_,
                       " bytes, which is the bound; raise it or make the object smaller"));
      break;
    }
    if (frame->bytes == 0) {
      scanned_ = rest.size();
      return absl::optional<Event>();
    }
    begin_ += frame->bytes;
    scanned_ = 0;
    if (!frame->has_event) continue;
    absl::StatusOr<Event> event = ParseEvent(frame->body);
    if (event.ok()) return absl::optional<Event>(*std::move(event));
    failure_ = event.status();
  }
  return failure_;
}

absl::Status Decoder::Finish() {
  CAPSTAN_RETURN_IF_ERROR(failure_);
  if (buffered() == 0) return absl::OkStatus();
  failure_ = status::Error(absl::StatusCode::kUnavailable, "WATCH_EVENT_TORN",
                           absl::StrCat("the watch ended ", buffered(),
                                        " bytes into an event; watch again from the last "
                                        "resource version"));
  return failure_;
}

}  // namespace capstan::kube::watch
