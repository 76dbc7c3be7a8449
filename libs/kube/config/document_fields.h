// Fields of a document whose other fields may be anything: those that are not asked for are not
// looked at, as kubectl does it.
#ifndef CAPSTAN_LIBS_KUBE_CONFIG_DOCUMENT_FIELDS_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_DOCUMENT_FIELDS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/config/document.h"
#include "libs/status/error.h"

namespace capstan::kube {

// What is wrong with one file or several.
class Findings {
 public:
  // Only the first one of a field counts: the others follow from it.
  void Add(absl::string_view file, config::Mark mark, absl::string_view field,
           absl::string_view problem);
  bool ok() const { return lines_.empty(); }
  // OK if there are none. Else INVALID_ARGUMENT with `reason`, the first 20 as lines
  // `<file>:<line>:<column>: <field>: <problem>`, and the fields as violations.
  absl::Status ToStatus(absl::string_view reason) const;

 private:
  std::set<std::pair<std::string, std::string>> seen_;
  std::vector<std::string> lines_;
  status::FieldErrors violations_;
};

// Parses the text of `file`; problems become findings that name no word of it.
absl::optional<config::Document> ParseText(absl::string_view text, absl::string_view file,
                                           Findings* findings);

// Reads one mapping. Null, also instead of the mapping, is the same as absent. What it is given
// must outlive it.
class DocumentFields {
 public:
  // `file` and `field`, the mapping's path, are for findings.
  DocumentFields(const config::Document* document, std::string file, std::string field,
                 Findings* findings);

  // Null if it is absent.
  const config::Document* Find(absl::string_view key) const;
  bool Has(absl::string_view key) const { return Find(key) != nullptr; }
  // Empty, or false, if it is absent, or is something else, which is a finding then.
  std::string Text(absl::string_view key) const;
  // The bytes that base64 stands for.
  std::string Bytes(absl::string_view key) const;
  bool Flag(absl::string_view key) const;
  std::vector<std::string> Texts(absl::string_view key) const;
  // Of a list of mappings.
  std::vector<DocumentFields> Mappings(absl::string_view key) const;
  DocumentFields Mapping(absl::string_view key) const;
  // Of a mapping.
  std::vector<std::string> Keys() const;

  const std::string& file() const { return file_; }
  const std::string& field() const { return field_; }
  // Null if the mapping itself is absent.
  const config::Document* document() const { return document_; }
  std::string Path(absl::string_view key) const;
  // About the field, where it is written; if it is absent, where the mapping is.
  void Wrong(absl::string_view key, absl::string_view problem) const;

 private:
  std::string ReadText(const config::Document& node, const std::string& field) const;

  const config::Document* document_;
  std::string file_;
  std::string field_;
  Findings* findings_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_DOCUMENT_FIELDS_H_
