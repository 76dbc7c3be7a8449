// Deletion, and what controllers do about it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/kube/testing/fake_api_state.h"
#include "libs/kube/testing/object_rules.h"

namespace capstan::kube::testing {
namespace {

constexpr char kOrphan[] = "orphan";
constexpr char kForeground[] = "foregroundDeletion";

bool Has(const std::vector<std::string>& list, absl::string_view one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

void Without(std::vector<std::string>* list, absl::string_view one) {
  list->erase(std::remove(list->begin(), list->end(), one), list->end());
}

// What the propagation makes of the finalizers (registry.Store's deletionFinalizersForGarbage…).
std::vector<std::string> FinalizersFor(const Json& object, const DeleteOptions& options) {
  std::vector<std::string> finalizers = Finalizers(object);
  if (!options.propagation.has_value()) return finalizers;
  Without(&finalizers, kOrphan);
  Without(&finalizers, kForeground);
  if (*options.propagation == "Orphan") finalizers.push_back(kOrphan);
  if (*options.propagation == "Foreground") finalizers.push_back(kForeground);
  return finalizers;
}

int64_t GraceOf(const FakeType& type, const Json& object, const DeleteOptions& options) {
  if (type.resource.kind != "Pod") return 0;
  const std::string phase = Text(Find(object, {"status", "phase"}));
  if (Text(Find(object, {"spec", "nodeName"})).empty() || phase == "Failed" ||
      phase == "Succeeded") {
    return 0;
  }
  const Json& own = Find(object, {"spec", "terminationGracePeriodSeconds"});
  int64_t grace = own.is_number_integer() ? own.get<int64_t>() : 30;
  if (options.grace_period_seconds.has_value()) grace = *options.grace_period_seconds;
  return grace < 0 ? 1 : grace;
}

void Raise(Json* object) {
  Json& metadata = (*object)["metadata"];
  const auto generation = metadata.find("generation");
  if (generation != metadata.end() && generation->is_number_integer()) {
    *generation = generation->get<int64_t>() + 1;
  }
}

// Whether the child has an owner that is there besides the one of that uid.
bool HasOtherOwner(const Json& child, const Json& owner_uid, const std::set<std::string>& uids) {
  for (const Json& owner : Find(child, {"metadata", "ownerReferences"})) {
    const Json& uid = Member(owner, "uid");
    if (uid != owner_uid && uids.contains(Text(uid))) return true;
  }
  return false;
}

DeleteOptions WithPropagation(const char* propagation) {
  DeleteOptions options;
  options.propagation = propagation;
  return options;
}

Json DeletedStatus(const FakeType& type, const Json& object) {
  Json details = {{"name", Find(object, {"metadata", "name"})},
                  {"kind", type.resource.plural},
                  {"uid", Find(object, {"metadata", "uid"})}};
  if (!type.resource.group.empty()) details["group"] = type.resource.group;
  return SuccessStatus(std::move(details));
}

}  // namespace

ApiOr<Deleted> FakeApiState::Delete(const FakeType& type, absl::string_view ns,
                                    absl::string_view name, const DeleteOptions& options) {
  const StoreKey key = KeyOf(type, ns, name);
  const ObjectRef stored = store_.Get(key);
  if (stored == nullptr) return NotFound(type.resource, name);
  const Json& before = *stored;
  if (options.propagation.has_value() && *options.propagation != "Orphan" &&
      *options.propagation != "Background" && *options.propagation != "Foreground") {
    return Invalid("DeleteOptions", "meta.k8s.io", "",
                   {{"FieldValueNotSupported",
                     absl::StrCat("Unsupported value: ", WriteJson(*options.propagation),
                                  ": supported values: \"Foreground\", \"Background\", "
                                  "\"Orphan\", \"nil\""),
                     "propagationPolicy"}});
  }
  const std::string uid = Text(Find(before, {"metadata", "uid"}));
  if (options.uid.has_value() && *options.uid != uid) {
    return Conflict(type.resource, name,
                    absl::StrCat("the UID in the precondition (", *options.uid,
                                 ") does not match the UID in record (", uid,
                                 "). The object might have been deleted and then recreated"));
  }
  const std::string version = Text(Find(before, {"metadata", "resourceVersion"}));
  if (options.resource_version.has_value() && *options.resource_version != version) {
    return Conflict(
        type.resource, name,
        absl::StrCat("the ResourceVersion in the precondition (", *options.resource_version,
                     ") does not match the ResourceVersion in record (", version,
                     "). The object might have been modified"));
  }
  if (hooks_.admit) {
    if (auto error = hooks_.admit(type, before, nullptr); error.has_value()) return *error;
  }
  if (type.resource.kind == "Namespace") return DeleteNamespace(type, key, before, options);

  Json after = before;
  const Json& old_deletion = Find(before, {"metadata", "deletionTimestamp"});
  const std::vector<std::string> finalizers = FinalizersFor(before, options);
  SetFinalizers(&after, finalizers);
  int64_t grace = GraceOf(type, before, options);
  const absl::Time now = clock_->Read().wall;
  Json& metadata = after["metadata"];
  if (!old_deletion.is_null()) {
    // Only a shorter grace changes what is under way.
    const int64_t old_grace = metadata.value("deletionGracePeriodSeconds", int64_t{0});
    if (!options.grace_period_seconds.has_value() || grace > old_grace) grace = old_grace;
    if (grace != old_grace) {
      metadata["deletionTimestamp"] = ToMetaTime(now + absl::Seconds(grace));
      metadata["deletionGracePeriodSeconds"] = grace;
    }
  } else {
    metadata["deletionTimestamp"] = ToMetaTime(now + absl::Seconds(grace));
    metadata["deletionGracePeriodSeconds"] = grace;
    Raise(&after);
  }
  const bool gone = finalizers.empty() && grace == 0;
  Deleted out;
  out.gone = gone;
  if (!gone && options.takes_dependents) out.code = 202;
  if (gone) {
    // What ends a grace under way early is written before the object goes.
    if (!old_deletion.is_null() && after != before && !options.dry_run) {
      Put(type, key, std::move(after));
    }
    Json last = options.dry_run ? before : Remove(key);
    out.body = type.returns_deleted ? std::move(last) : DeletedStatus(type, before);
    return out;
  }
  if (!options.dry_run && after != before) {
    Put(type, key, std::move(after));
    after = *store_.Get(key);
  }
  after["apiVersion"] = ApiVersion(type.resource);
  out.body = std::move(after);
  return out;
}

ApiOr<Deleted> FakeApiState::DeleteNamespace(const FakeType& type, const StoreKey& key,
                                             const Json& before, const DeleteOptions& options) {
  for (const char* const immortal : {"default", "kube-system", "kube-public"}) {
    if (key.name == immortal) {
      return Forbidden(type.resource, key.name, "this namespace may not be deleted");
    }
  }
  Json after = before;
  Json& metadata = after["metadata"];
  if (!metadata.contains("deletionTimestamp")) {
    metadata["deletionTimestamp"] = ToMetaTime(clock_->Read().wall);
  }
  after["status"]["phase"] = "Terminating";
  Deleted out;
  if (!options.dry_run && after != before) {
    Put(type, key, std::move(after));
    after = *store_.Get(key);
  }
  out.body = std::move(after);
  return out;
}

void FakeApiState::RunControllers() {
  if (!options_.controllers) return;
  // Each turn removes something or is the last.
  while (collect_) {
    collect_ = false;
    bool changed = DropUnservedObjects();
    changed = CollectOnce() || changed;
    changed = EndNamespaces() || changed;
    collect_ = collect_ && changed;
  }
}

bool FakeApiState::DropUnservedObjects() {
  // Those of a type whose definition is gone.
  std::vector<StoreKey> unserved;
  for (const auto& [key, object] : store_.all()) {
    if (TypeOfStore(key.resource) == nullptr) unserved.push_back(key);
  }
  for (const StoreKey& key : unserved) Remove(key);
  return !unserved.empty();
}

bool FakeApiState::Disown(const FakeType& type, const StoreKey& key, const Json& child,
                          const Json& owner_uid) {
  Json freed = child;
  Json kept = Json::array();
  for (const Json& owner : Find(child, {"metadata", "ownerReferences"})) {
    if (Member(owner, "uid") != owner_uid) kept.push_back(owner);
  }
  freed["metadata"]["ownerReferences"] = std::move(kept);
  return Replace(type, key, child, std::move(freed), "",
                 {.field_manager = "kube-controller-manager"}, /*apply=*/false)
      .ok();
}

bool FakeApiState::CollectOnce() {
  std::set<std::string> uids;
  for (const auto& [key, object] : store_.all()) {
    uids.insert(Text(Find(*object, {"metadata", "uid"})));
  }
  struct Owned {
    StoreKey key;
    bool blocks = false;
  };
  std::map<std::string, std::vector<Owned>> dependents;
  std::vector<StoreKey> orphans;
  std::vector<StoreKey> deleting;
  for (const auto& [key, object] : store_.all()) {
    const Json& metadata = Member(*object, "metadata");
    const Json& owners = Member(metadata, "ownerReferences");
    bool any_alive = !owners.is_array() || owners.empty();
    for (const Json& owner : owners) {
      const std::string uid = Text(Member(owner, "uid"));
      any_alive = any_alive || uids.count(uid) > 0;
      dependents[uid].push_back({key, Member(owner, "blockOwnerDeletion") == Json(true)});
    }
    if (!any_alive && !metadata.contains("deletionTimestamp")) orphans.push_back(key);
    const std::vector<std::string> finalizers = Finalizers(*object);
    if (metadata.contains("deletionTimestamp") &&
        (Has(finalizers, kOrphan) || Has(finalizers, kForeground))) {
      deleting.push_back(key);
    }
  }
  bool changed = false;
  for (const StoreKey& key : orphans) {
    const FakeType* const type = TypeOfStore(key.resource);
    if (type == nullptr) continue;
    const ApiOr<Deleted> deleted = Delete(*type, key.ns, key.name, WithPropagation("Background"));
    changed = changed || deleted.ok();
  }
  for (const StoreKey& key : deleting) {
    const ObjectRef object = store_.Get(key);
    const FakeType* const type = TypeOfStore(key.resource);
    if (object == nullptr || type == nullptr) continue;
    std::vector<std::string> finalizers = Finalizers(*object);
    const std::vector<Owned>& owned = dependents[Text(Find(*object, {"metadata", "uid"}))];
    bool blocked = false;
    for (const Owned& dependent : owned) {
      const ObjectRef child = store_.Get(dependent.key);
      const FakeType* const child_type = TypeOfStore(dependent.key.resource);
      if (child == nullptr || child_type == nullptr) continue;
      if (Has(finalizers, kOrphan)) {
        (void)Disown(*child_type, dependent.key, *child, Find(*object, {"metadata", "uid"}));
        continue;
      }
      if (!Find(*child, {"metadata", "deletionTimestamp"}).is_null()) {
        blocked = blocked || dependent.blocks;
        continue;
      }
      if (HasOtherOwner(*child, Find(*object, {"metadata", "uid"}), uids)) {
        changed = Disown(*child_type, dependent.key, *child, Find(*object, {"metadata", "uid"})) ||
                  changed;
        continue;
      }
      const ApiOr<Deleted> deleted =
          Delete(*child_type, dependent.key.ns, dependent.key.name, WithPropagation("Foreground"));
      changed = changed || deleted.ok();
      blocked = blocked || (dependent.blocks && !(deleted.ok() && deleted->gone));
    }
    if (blocked) continue;
    Without(&finalizers, kOrphan);
    Without(&finalizers, kForeground);
    Json freed = *object;
    SetFinalizers(&freed, finalizers);
    const ApiOr<Written> written =
        Replace(*type, key, *object, std::move(freed), "",
                {.field_manager = "kube-controller-manager"}, /*apply=*/false);
    changed = changed || written.ok();
  }
  return changed;
}

bool FakeApiState::EndNamespaces() {
  const FakeType& namespaces = *FindType("", "v1", "namespaces");
  bool changed = false;
  for (const auto& [key, space] : store_.List(namespaces.StoreName(), "")) {
    if (Find(*space, {"metadata", "deletionTimestamp"}).is_null()) {
      AddDefaults(key.name);
      continue;
    }
    bool is_empty = true;
    for (const auto& [inner, object] : RevisionStore::Objects(store_.all())) {
      if (inner.ns != key.name) continue;
      const FakeType* const type = TypeOfStore(inner.resource);
      if (type == nullptr || store_.Get(inner) == nullptr) continue;
      const ApiOr<Deleted> deleted =
          Delete(*type, inner.ns, inner.name, WithPropagation("Background"));
      if (deleted.ok() && deleted->gone) {
        changed = true;
      } else {
        is_empty = false;
      }
    }
    if (!is_empty) continue;
    Json ended = *store_.Get(key);
    if (!Finalizers(ended).empty()) continue;
    Remove(key);
    changed = true;
  }
  return changed;
}

void FakeApiState::AddDefaults(const std::string& ns) {
  const WriteOptions as_controller{.field_manager = "kube-controller-manager"};
  const FakeType& accounts = *FindType("", "v1", "serviceaccounts");
  if (store_.Get(KeyOf(accounts, ns, "default")) == nullptr) {
    (void)Create(accounts, ns, {{"metadata", {{"name", "default"}}}}, as_controller);
  }
  const FakeType& maps = *FindType("", "v1", "configmaps");
  if (store_.Get(KeyOf(maps, ns, "kube-root-ca.crt")) == nullptr) {
    (void)Create(maps, ns,
                 {{"metadata", {{"name", "kube-root-ca.crt"}}},
                  {"data", {{"ca.crt", "no certificate: this is a fake"}}}},
                 as_controller);
  }
}

}  // namespace capstan::kube::testing
