#include "libs/kube/testing/field_set.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace capstan::kube::testing {
namespace {

using Path = std::vector<std::string>;

void AddPaths(const FieldSet& set, const std::string& prefix, std::vector<std::string>* out) {
  if (set.member && !prefix.empty()) out->push_back(prefix);
  for (const auto& [edge, child] : set.children) {
    absl::string_view rest = edge;
    std::string path;
    if (absl::ConsumePrefix(&rest, "f:")) {
      path = absl::StrCat(prefix, ".", rest);
    } else if (absl::ConsumePrefix(&rest, "v:")) {
      path = absl::StrCat(prefix, "[=", rest, "]");
    } else {
      absl::ConsumePrefix(&rest, "k:");
      std::string keys;
      const Json parsed = ParseJson(rest);
      for (const auto& [key, value] : parsed.items()) {
        absl::StrAppend(&keys, keys.empty() ? "" : ",", key, "=", WriteJson(value));
      }
      path = absl::StrCat(prefix, "[", keys, "]");
    }
    AddPaths(child, path, out);
  }
}

std::map<std::string, const Json*> ItemsByEdge(const Json& list, const ListRule& rule) {
  std::map<std::string, const Json*> items;
  if (!list.is_array()) return items;
  for (const Json& item : list) items.emplace(ItemEdge(item, rule), &item);
  return items;
}

void Collect(const Json& value, const Path& path, bool builtin, FieldSet* out) {
  if (value.is_object() && !IsAtomicMap(path, builtin)) {
    for (const auto& [name, child] : value.items()) {
      Path below = path;
      below.push_back(name);
      FieldSet& node = out->children[absl::StrCat("f:", name)];
      Collect(child, below, builtin, &node);
      if (child.is_null() || (child.is_object() && child.empty())) node.member = true;
    }
    return;
  }
  if (value.is_array() && !path.empty()) {
    const ListRule rule = RuleOfList(path, builtin);
    if (rule.merge != Merge::kAtomic) {
      for (const auto& [edge, item] : ItemsByEdge(value, rule)) {
        FieldSet& node = out->children[edge];
        node.member = true;
        if (item->is_object()) Collect(*item, path, builtin, &node);
      }
      return;
    }
  }
  out->member = true;
}

// Everything below counts as new, the containers too.
void CollectAll(const Json& value, const Path& path, bool builtin, FieldSet* out) {
  if (!IsAlwaysThere(path, builtin)) out->member = true;
  if (value.is_object() && !IsAtomicMap(path, builtin)) {
    for (const auto& [name, child] : value.items()) {
      Path below = path;
      below.push_back(name);
      CollectAll(child, below, builtin, &out->children[absl::StrCat("f:", name)]);
    }
  } else if (value.is_array()) {
    const ListRule rule = RuleOfList(path, builtin);
    if (rule.merge == Merge::kAtomic) {
      out->member = true;
      return;
    }
    for (const auto& [edge, item] : ItemsByEdge(value, rule)) {
      FieldSet& node = out->children[edge];
      node.member = true;
      if (!item->is_object() || IsAtomicMap(path, builtin)) continue;
      for (const auto& [name, child] : item->items()) {
        Path below = path;
        below.push_back(name);
        CollectAll(child, below, builtin, &node.children[absl::StrCat("f:", name)]);
      }
    }
  }
}

void CompareAt(const Json& before, const Json& after, const Path& path, bool builtin,
               FieldSet* changed, FieldSet* removed);

void CompareMaps(const Json& before, const Json& after, const Path& path, bool builtin,
                 FieldSet* changed, FieldSet* removed) {
  for (const auto& [name, value] : after.items()) {
    Path below = path;
    below.push_back(name);
    const std::string edge = absl::StrCat("f:", name);
    CompareAt(Member(before, name), value, below, builtin, &changed->children[edge],
              &removed->children[edge]);
  }
  for (const auto& [name, value] : before.items()) {
    if (after.contains(name)) continue;
    Path below = path;
    below.push_back(name);
    CollectAll(value, below, builtin, &removed->children[absl::StrCat("f:", name)]);
    removed->children[absl::StrCat("f:", name)].member = true;
  }
}

void CompareAt(const Json& before, const Json& after, const Path& path, bool builtin,
               FieldSet* changed, FieldSet* removed) {
  if (before == after) return;
  if (before.is_null()) {
    CollectAll(after, path, builtin, changed);
    return;
  }
  if (before.is_object() && after.is_object() && !IsAtomicMap(path, builtin)) {
    CompareMaps(before, after, path, builtin, changed, removed);
    return;
  }
  if (before.is_array() && after.is_array()) {
    const ListRule rule = RuleOfList(path, builtin);
    if (rule.merge != Merge::kAtomic) {
      const auto old_items = ItemsByEdge(before, rule);
      const auto new_items = ItemsByEdge(after, rule);
      for (const auto& [edge, item] : new_items) {
        const auto old_item = old_items.find(edge);
        FieldSet* const node = &changed->children[edge];
        if (old_item == old_items.end()) {
          node->member = true;
          if (item->is_object() && !IsAtomicMap(path, builtin)) {
            FieldSet ignored;
            CompareMaps(Json::object(), *item, path, builtin, node, &ignored);
          }
        } else if (item->is_object() && !IsAtomicMap(path, builtin)) {
          CompareMaps(*old_item->second, *item, path, builtin, node, &removed->children[edge]);
        } else if (*item != *old_item->second) {
          node->member = true;
        }
      }
      for (const auto& [edge, item] : old_items) {
        if (new_items.count(edge) > 0) continue;
        FieldSet whole;
        Collect(*item, path, builtin, &whole);
        whole.member = true;
        removed->children[edge] = std::move(whole);
      }
      return;
    }
  }
  changed->member = true;
}

// Drops branches without a member.
bool Prune(FieldSet* set) {
  for (auto it = set->children.begin(); it != set->children.end();) {
    it = Prune(&it->second) ? std::next(it) : set->children.erase(it);
  }
  return set->member || !set->children.empty();
}

}  // namespace

bool FieldSet::empty() const {
  if (member) return false;
  for (const auto& [edge, child] : children) {
    if (!child.empty()) return false;
  }
  return true;
}

Json ToFieldsV1(const FieldSet& set) {
  Json out = Json::object();
  if (set.member && !set.children.empty()) out["."] = Json::object();
  for (const auto& [edge, child] : set.children) out[edge] = ToFieldsV1(child);
  return out;
}

FieldSet FromFieldsV1(const Json& fields) {
  FieldSet set;
  if (!fields.is_object()) return set;
  set.member = fields.empty() || fields.contains(".");
  for (const auto& [edge, child] : fields.items()) {
    if (edge != ".") set.children[edge] = FromFieldsV1(child);
  }
  return set;
}

FieldSet Union(const FieldSet& a, const FieldSet& b) {
  FieldSet out = a;
  out.member = a.member || b.member;
  for (const auto& [edge, child] : b.children) {
    const auto mine = a.children.find(edge);
    out.children[edge] = mine == a.children.end() ? child : Union(mine->second, child);
  }
  return out;
}

FieldSet Intersection(const FieldSet& a, const FieldSet& b) {
  FieldSet out;
  out.member = a.member && b.member;
  for (const auto& [edge, child] : a.children) {
    const auto other = b.children.find(edge);
    if (other != b.children.end()) out.children[edge] = Intersection(child, other->second);
  }
  Prune(&out);
  return out;
}

FieldSet Difference(const FieldSet& a, const FieldSet& b) {
  FieldSet out;
  out.member = a.member && !b.member;
  for (const auto& [edge, child] : a.children) {
    const auto other = b.children.find(edge);
    out.children[edge] = other == b.children.end() ? child : Difference(child, other->second);
  }
  Prune(&out);
  return out;
}

FieldSet DifferenceWithin(const FieldSet& a, const FieldSet& b) {
  if (b.member) return {};
  FieldSet out;
  out.member = a.member;
  for (const auto& [edge, child] : a.children) {
    const auto other = b.children.find(edge);
    out.children[edge] = other == b.children.end() ? child : DifferenceWithin(child, other->second);
  }
  Prune(&out);
  return out;
}

std::vector<std::string> Paths(const FieldSet& set) {
  std::vector<std::string> out;
  AddPaths(set, "", &out);
  return out;
}

std::string ItemEdge(const Json& item, const ListRule& rule) {
  if (rule.merge == Merge::kSet) return absl::StrCat("v:", WriteJson(item));
  Json keys = Json::object();
  for (const std::string& key : rule.keys) {
    const Json& value = Member(item, key);
    keys[key] = value.is_null() && key == "protocol" ? Json("TCP") : value;
  }
  return absl::StrCat("k:", WriteJson(keys));
}

FieldSet FieldsOf(const Json& object, bool builtin) {
  FieldSet set;
  Collect(object, {}, builtin, &set);
  Prune(&set);
  return set;
}

FieldChanges Compare(const Json& before, const Json& after, bool builtin) {
  FieldChanges changes;
  CompareAt(before.is_null() ? Json::object() : before, after, {}, builtin, &changes.changed,
            &changes.removed);
  Prune(&changes.changed);
  Prune(&changes.removed);
  return changes;
}

Json OwnablePart(Json object) {
  if (!object.is_object()) return object;
  object.erase("apiVersion");
  object.erase("kind");
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return object;
  for (const char* const name :
       {"name", "namespace", "creationTimestamp", "selfLink", "uid", "resourceVersion",
        "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds",
        "generateName"}) {
    metadata->erase(name);
  }
  if (metadata->empty()) object.erase("metadata");
  return object;
}

}  // namespace capstan::kube::testing
