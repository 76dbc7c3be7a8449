#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_DOCUMENT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_DOCUMENT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace capstan::cli {

// A message as a tree of ordered objects, lists and scalars: what JSON, YAML and templates are made
// from. Fields are in the order of the proto, by their proto names; maps are sorted by key; fields
// that are not set are left out.
struct Document {
  struct Member;
  enum class Kind { kText, kNumber, kLongNumber, kList, kObject };

  bool IsCollection() const { return kind == Kind::kList || kind == Kind::kObject; }
  // The member of an object; null if there is none. A list of resources is found as `items` too.
  const Document* Find(absl::string_view name) const;

  Kind kind = Kind::kText;
  // Of text and numbers. A kLongNumber has 64 bits, too many for most readers of JSON.
  std::string scalar;
  std::vector<Document> items;
  std::vector<Member> members;
  // An object whose one member is the list of resources that a command shows.
  bool resource_list = false;
};
struct Document::Member {
  std::string name;
  Document value;
};

// Durations are `1.5s`, times RFC 3339 in UTC, bytes base64.
Document ToDocument(const google::protobuf::Message& message);

// An object with one list, `{"<field>": […]}`.
Document ToDocument(absl::string_view field,
                    const std::vector<const google::protobuf::Message*>& list);

// Both end in a newline.
std::string ToJson(const Document& document);
std::string ToYaml(const Document& document);
// On one line, without a newline.
std::string ToCompactJson(const Document& document);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_DOCUMENT_H_
