#include "libs/kube/testing/api_body.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/kube/objects/proto/meta_v1.pb.h"
#include "libs/kube/objects/proto/runtime.pb.h"
#include "libs/kube/objects/protobuf_envelope.h"

namespace capstan::kube::testing {
namespace {

using k8s::io::apimachinery::pkg::apis::meta::v1::ListMeta;
using k8s::io::apimachinery::pkg::runtime::RawExtension;
using k8s::io::apimachinery::pkg::runtime::Unknown;

// A length-delimited field.
void AppendField(int number, absl::string_view value, std::string* out) {
  out->push_back(static_cast<char>(number << 3 | 2));
  for (size_t size = value.size(); true; size >>= 7) {
    if (size < 0x80) {
      out->push_back(static_cast<char>(size));
      break;
    }
    out->push_back(static_cast<char>((size & 0x7f) | 0x80));
  }
  absl::StrAppend(out, value);
}

std::string Envelope(absl::string_view api_version, absl::string_view kind, std::string raw) {
  Unknown unknown;
  unknown.mutable_type_meta()->set_api_version(std::string(api_version));
  unknown.mutable_type_meta()->set_kind(std::string(kind));
  unknown.set_raw(std::move(raw));
  unknown.set_content_encoding("");
  unknown.set_content_type("");
  return absl::StrCat(absl::string_view("k8s\0", 4), unknown.SerializeAsString());
}

// Absent: it cannot be converted.
absl::optional<std::string> ToMessage(const Json& object, const std::string& kind,
                                      const ObjectConverter& converter) {
  const std::string api_version = Text(Member(object, "apiVersion"));
  if (!converter.Knows(api_version, kind)) return absl::nullopt;
  auto message = converter.ToProtobuf(api_version, kind, WriteJson(object));
  if (!message.ok()) return absl::nullopt;
  return *std::move(message);
}

absl::optional<std::string> ToProtobufBody(const Json& body, const ObjectConverter& converter) {
  const std::string api_version = Text(Member(body, "apiVersion"));
  const std::string kind = Text(Member(body, "kind"));
  absl::string_view item_kind = kind;
  if (!absl::ConsumeSuffix(&item_kind, "List") || !Member(body, "items").is_array()) {
    absl::optional<std::string> message = ToMessage(body, kind, converter);
    if (!message.has_value()) return absl::nullopt;
    return Envelope(api_version, kind, *std::move(message));
  }
  if (!converter.Knows(api_version, item_kind)) return absl::nullopt;
  ListMeta metadata;
  metadata.set_resource_version(Text(Find(body, {"metadata", "resourceVersion"})));
  const std::string token = Text(Find(body, {"metadata", "continue"}));
  if (!token.empty()) metadata.set_continue_(token);
  const Json& remaining = Find(body, {"metadata", "remainingItemCount"});
  if (remaining.is_number_integer()) metadata.set_remaining_item_count(remaining.get<int64_t>());
  std::string raw;
  AppendField(1, metadata.SerializeAsString(), &raw);
  for (const Json& item : body["items"]) {
    auto message = converter.ToProtobuf(api_version, item_kind, WriteJson(item));
    if (!message.ok()) return absl::nullopt;
    AppendField(2, *message, &raw);
  }
  return Envelope(api_version, kind, std::move(raw));
}

}  // namespace

absl::optional<Encoding> Negotiate(absl::string_view accept, bool protobuf) {
  if (absl::StripAsciiWhitespace(accept).empty()) return Encoding::kJson;
  for (absl::string_view clause : absl::StrSplit(accept, ',')) {
    clause = absl::StripAsciiWhitespace(clause);
    // Tables and partial objects are not modelled; clients name a plain type after them.
    if (absl::StrContains(clause, "as=")) continue;
    const absl::string_view type =
        absl::StripAsciiWhitespace(clause.substr(0, std::min(clause.find(';'), clause.size())));
    if (type == kProtobufType && protobuf) return Encoding::kProtobuf;
    if (type == kJsonType || type == "*/*" || type == "application/*") return Encoding::kJson;
  }
  return absl::nullopt;
}

std::string WriteBody(const Json& body, const ObjectConverter* converter, Encoding* encoding) {
  if (*encoding == Encoding::kProtobuf && converter != nullptr) {
    absl::optional<std::string> text = ToProtobufBody(body, *converter);
    if (text.has_value()) return *std::move(text);
  }
  *encoding = Encoding::kJson;
  return WriteJson(body) + "\n";
}

std::string WriteEvent(absl::string_view type, const Json& object, Encoding encoding,
                       const ObjectConverter* converter) {
  if (encoding == Encoding::kJson || converter == nullptr) {
    return absl::StrCat("{\"type\":\"", type, "\",\"object\":", WriteJson(object), "}\n");
  }
  RawExtension extension;
  extension.set_raw(ToProtobufBody(object, *converter).value_or(""));
  std::string event;
  AppendField(1, type, &event);
  AppendField(2, extension.SerializeAsString(), &event);
  std::string frame;
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(static_cast<uint32_t>(event.size()) >> shift & 0xff));
  }
  return frame + event;
}

ApiOr<Json> ReadBody(const HttpRequest& request, const ObjectConverter* converter) {
  if (request.body.empty()) return Json();
  const absl::string_view header = FindHeader(request.headers, "Content-Type").value_or(kJsonType);
  const absl::string_view type =
      absl::StripAsciiWhitespace(header.substr(0, std::min(header.find(';'), header.size())));
  if (type == kProtobufType && converter != nullptr) {
    const auto envelope = ParseProtobufEnvelope(request.body);
    if (!envelope.ok()) return BadRequest("provided data does not appear to be a protobuf message");
    if (!converter->Knows(envelope->api_version, envelope->kind)) {
      return BadRequest(absl::StrCat("no kind \"", envelope->kind,
                                     "\" is registered for version \"", envelope->api_version,
                                     "\""));
    }
    const auto json = converter->ToJson(envelope->api_version, envelope->kind, envelope->raw);
    if (!json.ok()) return BadRequest("the object provided is unrecognized: a damaged message");
    return ParseJson(*json);
  }
  const bool is_known = type == kJsonType || type == "application/yaml" || type.empty() ||
                        absl::EndsWith(type, "-patch+json") ||
                        type == "application/apply-patch+yaml";
  if (!is_known) {
    return UnsupportedMediaType(
        "application/json, application/yaml, application/vnd.kubernetes.protobuf");
  }
  Json body = ParseJson(request.body);
  if (body.is_discarded()) return BadRequest("invalid character in the body: it is no JSON");
  return body;
}

}  // namespace capstan::kube::testing
