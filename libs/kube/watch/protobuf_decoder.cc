#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "libs/kube/watch/decoder.h"
#include "libs/kube/watch/payload.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube::watch {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr size_t kPrefix = 4;
constexpr absl::string_view kMagic("k8s\0", 4);

// Gives the last value of each of the length-delimited fields 1 to N without copying it; as in
// protobuf's own parser other fields are passed over.
template <size_t N>
absl::Status ReadFields(absl::string_view message, absl::string_view (&fields)[N]) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(message.data()),
                                               static_cast<int>(message.size()));
  while (const uint32_t tag = input.ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (number >= 1 && number <= static_cast<int>(N) &&
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t size = 0;
      if (!input.ReadVarint32(&size)) return Malformed("a field has no length");
      const auto at = static_cast<size_t>(input.CurrentPosition());
      if (size > message.size() - at) return Malformed("a field is longer than its message");
      fields[number - 1] = message.substr(at, size);
      if (!input.Skip(static_cast<int>(size))) return Malformed("a field is cut off");
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return Malformed("a field cannot be read");
    }
  }
  if (!input.ConsumedEntireMessage()) return Malformed("its protobuf has no end");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Decoder::Frame> ProtobufDecoder::FindFrame(absl::string_view rest, size_t) {
  Frame frame;
  if (rest.size() < kPrefix) return frame;
  uint32_t length = 0;
  for (size_t i = 0; i < kPrefix; ++i) length = length << 8 | static_cast<unsigned char>(rest[i]);
  // Said at once, not when the bytes have come.
  if (length > max_event_bytes()) {
    return status::Error(absl::StatusCode::kResourceExhausted, "WATCH_EVENT_TOO_LARGE",
                         absl::StrCat("a watch event says that it has ", length,
                                      " bytes; the bound is ", max_event_bytes()));
  }
  if (rest.size() - kPrefix < length) return frame;
  frame.bytes = kPrefix + length;
  frame.body = rest.substr(kPrefix, length);
  frame.has_event = true;
  return frame;
}

absl::StatusOr<Event> ProtobufDecoder::ParseEvent(absl::string_view body) {
  // metav1.WatchEvent: type, object. RawExtension: raw. Unknown: typeMeta, raw, contentEncoding,
  // contentType. TypeMeta: apiVersion, kind.
  absl::string_view event_fields[2];
  CAPSTAN_RETURN_IF_ERROR(ReadFields(body, event_fields));
  CAPSTAN_ASSIGN_OR_RETURN(const EventType type, ParseEventType(event_fields[0]));
  absl::string_view extension[1];
  CAPSTAN_RETURN_IF_ERROR(ReadFields(event_fields[1], extension));
  if (!absl::ConsumePrefix(&extension[0], kMagic)) {
    return Malformed("its object does not begin with 6b 38 73 00");
  }
  absl::string_view unknown[4];
  CAPSTAN_RETURN_IF_ERROR(ReadFields(extension[0], unknown));
  if (!unknown[2].empty()) return Malformed("its object has a content encoding");
  if (!unknown[3].empty() && unknown[3] != "application/vnd.kubernetes.protobuf") {
    return Malformed("its object is not protobuf");
  }
  absl::string_view type_meta[2];
  CAPSTAN_RETURN_IF_ERROR(ReadFields(unknown[0], type_meta));
  CAPSTAN_ASSIGN_OR_RETURN(Event event, MakeEvent(type, unknown[1], Encoding::kProtobuf));
  event.api_version = type_meta[0];
  event.kind = type_meta[1];
  return event;
}

}  // namespace capstan::kube::watch
