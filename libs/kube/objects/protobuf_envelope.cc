#include "libs/kube/objects/protobuf_envelope.h"

#include <limits>

#include "absl/strings/strip.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "libs/kube/objects/object_error.h"
#include "libs/kube/objects/proto/meta_v1.pb.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

using google::protobuf::internal::WireFormatLite;
using k8s::io::apimachinery::pkg::apis::meta::v1::ListMeta;

constexpr absl::string_view kMagic("k8s\0", 4);
constexpr char kContentType[] = "application/vnd.kubernetes.protobuf";

uint32_t Tag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Calls visit(number, view) for each length-delimited field; others are passed over, as protobuf's
// own parser does.
template <typename Visit>
absl::Status ForEachField(absl::string_view message, Visit visit) {
  if (message.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return ObjectMalformed("it has more than 2 GiB");
  }
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(message.data()),
                                               static_cast<int>(message.size()));
  while (const uint32_t tag = input.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) return ObjectMalformed("a field is cut off");
      continue;
    }
    uint32_t size = 0;
    if (!input.ReadVarint32(&size)) return ObjectMalformed("a field has no length");
    const auto at = static_cast<size_t>(input.CurrentPosition());
    if (size > message.size() - at) return ObjectMalformed("a field is longer than its message");
    visit(WireFormatLite::GetTagFieldNumber(tag), message.substr(at, size));
    if (!input.Skip(static_cast<int>(size))) return ObjectMalformed("a field is cut off");
  }
  if (!input.ConsumedEntireMessage()) return ObjectMalformed("its protobuf has no end");
  return absl::OkStatus();
}

// The last of each of the fields 1 to N.
template <size_t N>
absl::Status ReadFields(absl::string_view message, absl::string_view (&fields)[N]) {
  return ForEachField(message, [&](int number, absl::string_view value) {
    if (number >= 1 && number <= static_cast<int>(N)) fields[number - 1] = value;
  });
}

size_t FieldBytes(size_t size) {
  return 1 + google::protobuf::io::CodedOutputStream::VarintSize64(size) + size;
}

void WriteField(int field, absl::string_view value,
                google::protobuf::io::CodedOutputStream* output) {
  output->WriteTag(Tag(field));
  output->WriteVarint32(static_cast<uint32_t>(value.size()));
  output->WriteRaw(value.data(), static_cast<int>(value.size()));
}

}  // namespace

absl::StatusOr<ProtobufEnvelope> ParseProtobufEnvelope(absl::string_view body) {
  if (!absl::ConsumePrefix(&body, kMagic)) {
    return ObjectMalformed("it does not begin with 6b 38 73 00");
  }
  // typeMeta, raw, contentEncoding, contentType.
  absl::string_view unknown[4];
  CAPSTAN_RETURN_IF_ERROR(ReadFields(body, unknown));
  if (!unknown[2].empty()) return ObjectMalformed("it has a content encoding");
  if (!unknown[3].empty() && unknown[3] != kContentType)
    return ObjectMalformed("it is no protobuf");
  // apiVersion, kind.
  absl::string_view type_meta[2];
  CAPSTAN_RETURN_IF_ERROR(ReadFields(unknown[0], type_meta));
  return ProtobufEnvelope{type_meta[0], type_meta[1], unknown[1]};
}

absl::StatusOr<EncodedList> ParseProtobufList(absl::string_view raw) {
  EncodedList list;
  ListMeta metadata;
  bool metadata_ok = true;
  CAPSTAN_RETURN_IF_ERROR(ForEachField(raw, [&](int number, absl::string_view value) {
    if (number == 2) list.items.push_back(value);
    if (number == 1) {
      metadata_ok =
          metadata.ParseFromArray(value.data(), static_cast<int>(value.size())) && metadata_ok;
    }
  }));
  if (!metadata_ok) return ObjectMalformed("the metadata of a list is no ListMeta");
  list.resource_version = metadata.resource_version();
  list.continue_token = metadata.continue_();
  if (metadata.has_remaining_item_count()) list.remaining = metadata.remaining_item_count();
  return list;
}

absl::optional<ObjectNames> FindProtobufNames(absl::string_view object) {
  absl::string_view metadata;
  int pieces = 0;
  const absl::Status read = ForEachField(object, [&](int number, absl::string_view value) {
    if (number != 1) return;
    metadata = value;
    ++pieces;
  });
  if (!read.ok() || pieces != 1) return absl::nullopt;
  // name, generateName, namespace, selfLink, uid, resourceVersion.
  absl::string_view fields[6];
  if (!ReadFields(metadata, fields).ok()) return absl::nullopt;
  return ObjectNames{fields[2], fields[0], fields[4], fields[5]};
}

std::string WriteProtobufEnvelope(absl::string_view api_version, absl::string_view kind,
                                  const google::protobuf::MessageLite& message) {
  const size_t type_meta = FieldBytes(api_version.size()) + FieldBytes(kind.size());
  const size_t raw = message.ByteSizeLong();
  std::string body;
  body.reserve(kMagic.size() + FieldBytes(type_meta) + FieldBytes(raw));
  body.append(kMagic.data(), kMagic.size());
  google::protobuf::io::StringOutputStream stream(&body);
  google::protobuf::io::CodedOutputStream output(&stream);
  output.SetSerializationDeterministic(true);
  output.WriteTag(Tag(1));
  output.WriteVarint32(static_cast<uint32_t>(type_meta));
  WriteField(1, api_version, &output);
  WriteField(2, kind, &output);
  output.WriteTag(Tag(2));
  output.WriteVarint32(static_cast<uint32_t>(raw));
  message.SerializeWithCachedSizes(&output);
  output.Trim();
  return body;
}

}  // namespace capstan::kube
