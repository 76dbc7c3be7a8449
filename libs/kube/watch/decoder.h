// Watch streams of the Kubernetes API as events.
#ifndef CAPSTAN_LIBS_KUBE_WATCH_DECODER_H_
#define CAPSTAN_LIBS_KUBE_WATCH_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace capstan::kube::watch {

// Above what an API server stores (etcd takes 1.5 MiB), in JSON too.
inline constexpr size_t kDefaultMaxEventBytes = 16 << 20;

enum class EventType { kAdded, kModified, kDeleted, kBookmark, kError };

// metav1.Status, as far as a watch needs it.
struct ServerStatus {
  // As of HTTP: 410 means that the resource version is too old.
  int32_t code = 0;
  std::string reason;
  std::string message;
  absl::optional<absl::Duration> retry_after;

  friend bool operator==(const ServerStatus&, const ServerStatus&) = default;
};

struct Event {
  EventType type = EventType::kAdded;
  // kAdded, kModified, kDeleted: the object's JSON text, or its protobuf message without envelope.
  // Valid until the decoder's next call.
  absl::string_view object;
  // What the envelope says of `object`; empty for JSON, whose text says it itself.
  absl::string_view api_version;
  absl::string_view kind;
  // kBookmark.
  std::string resource_version;
  bool initial_events_end = false;
  // kError.
  ServerStatus status;
};

// Takes a stream in pieces of any size and gives its events in order: the same ones, whatever the
// pieces. Work is linear in the bytes. Of the stream it holds the unfinished event, at most
// `max_event_bytes`, and what was appended last, if Next is called until it has no more.
//
// Errors, after which every call gives the same one: INVALID_ARGUMENT with reason
// WATCH_EVENT_MALFORMED; RESOURCE_EXHAUSTED with reason WATCH_EVENT_TOO_LARGE. For one thread.
class Decoder {
 public:
  virtual ~Decoder() = default;

  void Append(absl::string_view bytes);
  // Absent: the rest of the next event has not come.
  absl::StatusOr<absl::optional<Event>> Next();
  // The stream has ended. UNAVAILABLE with reason WATCH_EVENT_TORN if it did so inside an event.
  absl::Status Finish();

  size_t buffered() const { return buffer_.size() - begin_; }

 protected:
  explicit Decoder(size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  struct Frame {
    // Of the buffer, from its beginning; 0 if the frame is not complete.
    size_t bytes = 0;
    // False for white space between events.
    bool has_event = false;
    absl::string_view body;
  };
  // `scanned` bytes were seen by the call before, which found no frame; never more than `rest` has.
  virtual absl::StatusOr<Frame> FindFrame(absl::string_view rest, size_t scanned) = 0;
  virtual absl::StatusOr<Event> ParseEvent(absl::string_view body) = 0;
  size_t max_event_bytes() const { return max_event_bytes_; }

 private:
  const size_t max_event_bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t scanned_ = 0;
  absl::Status failure_;
};

// One JSON object a line, as `application/json` has it.
class JsonDecoder final : public Decoder {
 public:
  explicit JsonDecoder(size_t max_event_bytes = kDefaultMaxEventBytes) : Decoder(max_event_bytes) {}

 private:
  absl::StatusOr<Frame> FindFrame(absl::string_view rest, size_t scanned) override;
  absl::StatusOr<Event> ParseEvent(absl::string_view body) override;
};

// `application/vnd.kubernetes.protobuf;stream=watch`: frames of a length (4 bytes, big-endian) and
// a bare metav1.WatchEvent (apimachinery's util/framer and LengthDelimitedFramer), whose object is
// the bytes 6b 38 73 00 and a runtime.Unknown around the object (serializer/protobuf).
class ProtobufDecoder final : public Decoder {
 public:
  explicit ProtobufDecoder(size_t max_event_bytes = kDefaultMaxEventBytes)
      : Decoder(max_event_bytes) {}

 private:
  absl::StatusOr<Frame> FindFrame(absl::string_view rest, size_t scanned) override;
  absl::StatusOr<Event> ParseEvent(absl::string_view body) override;
};

}  // namespace capstan::kube::watch

#endif  // CAPSTAN_LIBS_KUBE_WATCH_DECODER_H_
