#include "tools/capstan/cli/proto_text.h"

#include "tools/capstan/cli/document.h"

namespace capstan::cli {

using google::protobuf::Message;

std::string ToJson(const Message& message) { return ToJson(ToDocument(message)); }
std::string ToYaml(const Message& message) { return ToYaml(ToDocument(message)); }

std::string ToJson(absl::string_view field, const std::vector<const Message*>& list) {
  return ToJson(ToDocument(field, list));
}

std::string ToYaml(absl::string_view field, const std::vector<const Message*>& list) {
  return ToYaml(ToDocument(field, list));
}

}  // namespace capstan::cli
