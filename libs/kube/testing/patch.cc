#include "libs/kube/testing/patch.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/testing/list_schema.h"

namespace capstan::kube::testing {
namespace {

using Path = std::vector<std::string>;

void MergeMap(Json* object, const Json& patch, const Path& path);

// Without what only directs the merge.
Json Plainly(Json patch) {
  if (patch.is_object()) {
    Json out = Json::object();
    for (const auto& [name, value] : patch.items()) {
      if (absl::StartsWith(name, "$") || value.is_null()) continue;
      out[name] = Plainly(value);
    }
    return out;
  }
  if (patch.is_array()) {
    Json out = Json::array();
    for (const Json& item : patch) {
      const std::string directive = Text(Member(item, "$patch"));
      if (directive == "delete" || (directive == "replace" && item.size() == 1)) continue;
      out.push_back(Plainly(item));
    }
    return out;
  }
  return patch;
}

bool ReplacesList(const Json& patch) {
  return std::any_of(patch.begin(), patch.end(),
                     [](const Json& item) { return Text(Member(item, "$patch")) == "replace"; });
}

void MergeList(Json* list, const Json& patch, const Path& path) {
  const std::string key = RuleOfList(path, /*builtin=*/true).patch_key;
  if (key.empty() || !list->is_array() || ReplacesList(patch)) {
    *list = Plainly(patch);
    return;
  }
  for (const Json& item : patch) {
    const auto same = [&](const Json& mine) {
      return key == "=" ? mine == item
                        : !Member(item, key).is_null() && Member(mine, key) == Member(item, key);
    };
    const auto found = std::find_if(list->begin(), list->end(), same);
    if (Text(Member(item, "$patch")) == "delete") {
      if (found != list->end()) list->erase(found);
    } else if (found == list->end()) {
      list->push_back(Plainly(item));
    } else if (item.is_object()) {
      MergeMap(&*found, item, path);
    }
  }
}

void MergeMap(Json* object, const Json& patch, const Path& path) {
  const std::string directive = Text(Member(patch, "$patch"));
  if (directive == "replace") {
    *object = Plainly(patch);
    return;
  }
  if (directive == "delete") {
    *object = Json::object();
    return;
  }
  const Json& retained = Member(patch, "$retainKeys");
  if (retained.is_array()) {
    for (auto it = object->begin(); it != object->end();) {
      const bool keep = std::find(retained.begin(), retained.end(), it.key()) != retained.end();
      it = keep ? std::next(it) : object->erase(it);
    }
  }
  for (const auto& [name, value] : patch.items()) {
    if (absl::StartsWith(name, "$deleteFromPrimitiveList/")) {
      const std::string target = name.substr(name.find('/') + 1);
      const auto list = object->find(target);
      if (list == object->end() || !list->is_array()) continue;
      for (const Json& gone : value) {
        list->erase(std::remove(list->begin(), list->end(), gone), list->end());
      }
      continue;
    }
    if (absl::StartsWith(name, "$")) continue;
    if (value.is_null()) {
      object->erase(name);
      continue;
    }
    Path below = path;
    below.push_back(name);
    const auto found = object->find(name);
    if (found == object->end()) {
      (*object)[name] = Plainly(value);
    } else if (value.is_object() && found->is_object()) {
      if (Text(Member(value, "$patch")) == "delete") {
        object->erase(found);
      } else {
        MergeMap(&*found, value, below);
      }
    } else if (value.is_array()) {
      MergeList(&*found, value, below);
    } else {
      *found = Plainly(value);
    }
  }
}

}  // namespace

ApiOr<Json> JsonPatch(const Json& object, const Json& patch) {
  if (!patch.is_array()) {
    return BadRequest(
        "error decoding patch: json: cannot unmarshal object into Go value of type "
        "jsonpatch.Patch");
  }
  for (const Json& operation : patch) {
    if (!operation.is_object()) return BadRequest("error decoding patch: no operation");
  }
  try {
    return object.patch(patch);
  } catch (const Json::exception&) {
    // What cannot be decoded and what cannot be done are told apart less well than by the server.
    return Plain(422, "the server rejected our request due to an error in our request");
  }
}

ApiOr<Json> MergePatch(const Json& object, const Json& patch) {
  if (!patch.is_object()) return BadRequest("error decoding patch: expected a JSON object");
  Json merged = object;
  merged.merge_patch(patch);
  return merged;
}

ApiOr<Json> StrategicMergePatch(const Json& object, const Json& patch) {
  if (!patch.is_object()) return BadRequest("error decoding patch: expected a JSON object");
  Json merged = object;
  MergeMap(&merged, patch, {});
  return merged;
}

}  // namespace capstan::kube::testing
