// Which lists and maps of an object merge, and by what: the part of the OpenAPI schema that patches
// and field ownership need, for the builtin types that this folder knows.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_LIST_SCHEMA_H_
#define CAPSTAN_LIBS_KUBE_TESTING_LIST_SCHEMA_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::kube::testing {

enum class Merge { kAtomic, kSet, kMap };

struct ListRule {
  Merge merge = Merge::kAtomic;
  // Of kMap: what tells items apart.
  std::vector<std::string> keys;
  // What a strategic merge patch tells them apart by; empty: it replaces the list.
  std::string patch_key;
};

// `path` is of names, without the places in lists: {"spec", "containers", "env"}. Custom resources
// (`builtin` false) have atomic lists outside of metadata, as those without a schema's markers.
ListRule RuleOfList(const std::vector<std::string>& path, bool builtin);
// Whether the object at `path` is owned as a whole.
bool IsAtomicMap(const std::vector<std::string>& path, bool builtin);
// Whether the object at `path` is always there in what the server encodes, so that it is no change
// when its first field comes.
bool IsAlwaysThere(const std::vector<std::string>& path, bool builtin);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_LIST_SCHEMA_H_
