#include "libs/kube/testing/field_ownership.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/kube/testing/field_set.h"
#include "libs/kube/testing/list_schema.h"

namespace capstan::kube::testing {
namespace {

using Path = std::vector<std::string>;

struct Entry {
  std::string manager;
  std::string operation;
  std::string api_version;
  std::string subresource;
  std::string time;
  FieldSet fields;

  bool IsOf(const FieldManager& who, absl::string_view op) const {
    return manager == who.name && operation == op && subresource == who.subresource &&
           (op == "Apply" || api_version == who.api_version);
  }
};

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::vector<Entry> ReadEntries(const Json& object) {
  std::vector<Entry> entries;
  const Json& list = Find(object, {"metadata", "managedFields"});
  if (!list.is_array()) return entries;
  for (const Json& one : list) {
    entries.push_back({Text(Member(one, "manager")), Text(Member(one, "operation")),
                       Text(Member(one, "apiVersion")), Text(Member(one, "subresource")),
                       Text(Member(one, "time")), FromFieldsV1(Member(one, "fieldsV1"))});
  }
  return entries;
}

void WriteEntries(std::vector<Entry> entries, Json* object) {
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [](const Entry& entry) { return entry.fields.empty(); }),
                entries.end());
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.operation, a.time, a.manager, a.api_version, a.subresource) <
           std::tie(b.operation, b.time, b.manager, b.api_version, b.subresource);
  });
  Json list = Json::array();
  for (const Entry& entry : entries) {
    Json one = {{"manager", entry.manager},        {"operation", entry.operation},
                {"apiVersion", entry.api_version}, {"time", entry.time},
                {"fieldsType", "FieldsV1"},        {"fieldsV1", ToFieldsV1(entry.fields)}};
    if (!entry.subresource.empty()) one["subresource"] = entry.subresource;
    list.push_back(std::move(one));
  }
  if (list.empty()) {
    if (object->contains("metadata")) (*object)["metadata"].erase("managedFields");
  } else {
    (*object)["metadata"]["managedFields"] = std::move(list);
  }
}

Entry& EntryOf(std::vector<Entry>* entries, const FieldManager& manager,
               const std::string& operation) {
  for (Entry& entry : *entries) {
    if (entry.IsOf(manager, operation)) return entry;
  }
  entries->push_back({manager.name,
                      operation,
                      manager.api_version,
                      manager.subresource,
                      Rfc3339(manager.now),
                      {}});
  return entries->back();
}

// Puts `config` over `live`, lists by their keys.
void MergeInto(Json* live, const Json& config, const Path& path, bool builtin) {
  if (config.is_object() && live->is_object() && !IsAtomicMap(path, builtin)) {
    for (const auto& [name, value] : config.items()) {
      Path below = path;
      below.push_back(name);
      const auto found = live->find(name);
      if (found == live->end()) {
        (*live)[name] = value;
      } else {
        MergeInto(&*found, value, below, builtin);
      }
    }
    return;
  }
  if (config.is_array() && live->is_array() && !path.empty()) {
    const ListRule rule = RuleOfList(path, builtin);
    if (rule.merge != Merge::kAtomic) {
      for (const Json& item : config) {
        const std::string edge = ItemEdge(item, rule);
        const auto found = std::find_if(live->begin(), live->end(), [&](const Json& mine) {
          return ItemEdge(mine, rule) == edge;
        });
        if (found == live->end()) {
          live->push_back(item);
        } else if (item.is_object() && !IsAtomicMap(path, builtin)) {
          for (const auto& [name, value] : item.items()) {
            Path below = path;
            below.push_back(name);
            MergeInto(&(*found)[name], value, below, builtin);
          }
        } else {
          *found = item;
        }
      }
      return;
    }
  }
  *live = config;
}

// Takes out of `value` what `gone` holds, except where `kept` has a member at or below it.
void RemoveFields(Json* value, const FieldSet& gone, const FieldSet& kept, const Path& path,
                  bool builtin) {
  for (const auto& [edge, child] : gone.children) {
    const auto keep = kept.children.find(edge);
    const bool is_kept = keep != kept.children.end() && !keep->second.empty();
    const FieldSet below_kept = is_kept ? keep->second : FieldSet();
    if (edge.rfind("f:", 0) == 0 && value->is_object()) {
      const std::string name = edge.substr(2);
      const auto found = value->find(name);
      if (found == value->end()) continue;
      if (child.member && !is_kept) {
        value->erase(found);
        continue;
      }
      Path below = path;
      below.push_back(name);
      RemoveFields(&*found, child, below_kept, below, builtin);
      const bool hollow = (found->is_object() || found->is_array()) && found->empty();
      if (hollow && !is_kept && !child.children.empty()) value->erase(found);
    } else if (value->is_array() && !path.empty()) {
      const ListRule rule = RuleOfList(path, builtin);
      for (auto item = value->begin(); item != value->end();) {
        if (ItemEdge(*item, rule) != edge) {
          ++item;
        } else if (child.member && !is_kept) {
          item = value->erase(item);
        } else {
          RemoveFields(&*item, child, below_kept, path, builtin);
          ++item;
        }
      }
    }
  }
}

std::string Show(const Entry& entry) {
  std::string text = WriteJson(entry.manager);
  if (!entry.subresource.empty()) {
    absl::StrAppend(&text, " with subresource ", WriteJson(entry.subresource));
  }
  if (entry.operation == "Update") {
    absl::StrAppend(&text, " using ", entry.api_version);
    if (!entry.time.empty()) absl::StrAppend(&text, " at ", entry.time);
  }
  return text;
}

ApiError ApplyConflict(const std::map<std::string, std::vector<std::string>>& conflicts) {
  Json causes = Json::array();
  std::vector<std::string> groups;
  std::string single;
  for (const auto& [manager, paths] : conflicts) {
    std::string group = absl::StrCat("conflicts with ", manager, ":");
    for (const std::string& path : paths) {
      absl::StrAppend(&group, "\n- ", path);
      single = absl::StrCat("conflict with ", manager, ": ", path);
      causes.push_back({{"reason", "FieldManagerConflict"},
                        {"message", absl::StrCat("conflict with ", manager)},
                        {"field", path}});
    }
    groups.push_back(std::move(group));
  }
  const size_t count = causes.size();
  const std::string message =
      count == 1
          ? absl::StrCat("Apply failed with 1 conflict: ", single)
          : absl::StrCat("Apply failed with ", count, " conflicts: ", absl::StrJoin(groups, "\n"));
  return {409, "Conflict", message, Json{{"causes", causes}}, ""};
}

}  // namespace

void TrackUpdate(const Json& before, Json* after, const FieldManager& manager) {
  std::vector<Entry> entries = ReadEntries(before);
  const Json& asked = Find(*after, {"metadata", "managedFields"});
  // A list of one empty entry is how a client resets them.
  if (asked.is_array() && asked.size() == 1 && asked[0].is_object() && asked[0].empty()) {
    entries.clear();
  }
  const FieldChanges changes = Compare(OwnablePart(before), OwnablePart(*after), manager.builtin);
  for (Entry& entry : entries) {
    const FieldSet old = entry.fields;
    entry.fields = Difference(entry.fields, changes.removed);
    if (!entry.IsOf(manager, "Update")) entry.fields = Difference(entry.fields, changes.changed);
    if (entry.fields != old) entry.time = Rfc3339(manager.now);
  }
  if (!changes.changed.empty()) {
    Entry& mine = EntryOf(&entries, manager, "Update");
    FieldSet all = Union(mine.fields, changes.changed);
    mine.fields = std::move(all);
    mine.time = Rfc3339(manager.now);
  }
  WriteEntries(std::move(entries), after);
}

ApiOr<Json> Apply(const Json& live, const Json& config, const FieldManager& manager, bool force) {
  std::vector<Entry> entries = ReadEntries(live);
  const Json wanted = OwnablePart(config);
  const FieldSet claimed = FieldsOf(wanted, manager.builtin);

  // What was there before anyone applied, and is no one's, belongs to this one.
  if (!live.is_null() && entries.empty()) {
    entries.push_back({"before-first-apply", "Update", manager.api_version, "", "",
                       FieldsOf(OwnablePart(live), manager.builtin)});
  }

  Json merged = live.is_null() ? config : live;
  if (!live.is_null()) MergeInto(&merged, wanted, {}, manager.builtin);

  const FieldChanges changes = Compare(OwnablePart(live), OwnablePart(merged), manager.builtin);
  std::map<std::string, std::vector<std::string>> conflicts;
  for (const Entry& entry : entries) {
    if (entry.IsOf(manager, "Apply")) continue;
    std::vector<std::string> paths = Paths(Intersection(entry.fields, changes.changed));
    if (!paths.empty()) conflicts[Show(entry)] = std::move(paths);
  }
  if (!conflicts.empty() && !force) return ApplyConflict(conflicts);

  Entry& mine = EntryOf(&entries, manager, "Apply");
  const FieldSet before = std::exchange(mine.fields, claimed);
  if (before != claimed || mine.api_version != manager.api_version) {
    mine.time = Rfc3339(manager.now);
  }
  mine.api_version = manager.api_version;
  FieldSet kept = claimed;
  for (Entry& entry : entries) {
    if (entry.IsOf(manager, "Apply")) continue;
    const FieldSet old = entry.fields;
    entry.fields = Difference(entry.fields, changes.changed);
    if (entry.fields != old) entry.time = Rfc3339(manager.now);
    kept = Union(kept, entry.fields);
  }
  RemoveFields(&merged, Difference(before, claimed), kept, {}, manager.builtin);
  // Who owned what now is gone with its parent owns it no longer.
  const FieldSet gone = Compare(OwnablePart(live), OwnablePart(merged), manager.builtin).removed;
  for (Entry& entry : entries) {
    if (!entry.IsOf(manager, "Apply")) entry.fields = Difference(entry.fields, gone);
  }
  WriteEntries(std::move(entries), &merged);
  return merged;
}

}  // namespace capstan::kube::testing
