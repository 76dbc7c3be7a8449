// Sets of fields of an object, in the form of managedFields' fieldsV1.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FIELD_SET_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FIELD_SET_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/kube/testing/json.h"
#include "libs/kube/testing/list_schema.h"

namespace capstan::kube::testing {

// A tree; its edges are fieldsV1's: `f:name`, `k:{"name":"web"}`, `v:"a"`.
struct FieldSet {
  // The node itself is in the set, besides what is below it.
  bool member = false;
  std::map<std::string, FieldSet> children;

  bool empty() const;
  friend bool operator==(const FieldSet&, const FieldSet&) = default;
};

Json ToFieldsV1(const FieldSet& set);
FieldSet FromFieldsV1(const Json& fields);

FieldSet Union(const FieldSet& a, const FieldSet& b);
FieldSet Intersection(const FieldSet& a, const FieldSet& b);
FieldSet Difference(const FieldSet& a, const FieldSet& b);
// Without `b` and all that is below members of `b`.
FieldSet DifferenceWithin(const FieldSet& a, const FieldSet& b);

// `.spec.containers[name="web"].image`, in order.
std::vector<std::string> Paths(const FieldSet& set);

// The edge to an item of a list that merges by key, or that is a set.
std::string ItemEdge(const Json& item, const ListRule& rule);

// What an applied configuration claims (structured-merge-diff's ToFieldSet).
FieldSet FieldsOf(const Json& object, bool builtin);

// What differs between two states.
struct FieldChanges {
  // New or other values.
  FieldSet changed;
  FieldSet removed;
};
FieldChanges Compare(const Json& before, const Json& after, bool builtin);

// Takes out metadata that no one owns: name, uid, managedFields and so on; apiVersion and kind.
Json OwnablePart(Json object);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FIELD_SET_H_
