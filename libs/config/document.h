#ifndef CAPSTAN_LIBS_CONFIG_DOCUMENT_H_
#define CAPSTAN_LIBS_CONFIG_DOCUMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::config {

// A place in a file, both from 1.
struct Mark {
  int line = 1;
  int column = 1;

  friend bool operator==(const Mark&, const Mark&) = default;
};

// One thing that is wrong, and where.
struct Problem {
  Mark mark;
  std::string text;
};

// A node of a YAML or JSON document, as written: which type a scalar has is for the reader to say.
struct Document {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  struct Entry;

  Kind kind = Kind::kNull;
  Mark mark;
  // kScalar.
  std::string text;
  // kScalar: written in quotes or as a block, so never a number, a boolean or null.
  bool quoted = false;
  // kSequence.
  std::vector<Document> items;
  // kMapping, in the order of the file, keys unique.
  std::vector<Entry> entries;
};

struct Document::Entry {
  std::string key;
  Mark mark;
  Document value;
};

// Parses one document of YAML 1.2 (of which JSON is a part), UTF-8, at most 1 MiB and 64 levels
// deep. Anchors, aliases and tags are refused: what a file says should be read off it. An empty
// file is an empty mapping. Nothing is returned if something was wrong.
absl::optional<Document> ParseDocument(absl::string_view text, std::vector<Problem>* problems);

}  // namespace capstan::config

#endif  // CAPSTAN_LIBS_CONFIG_DOCUMENT_H_
