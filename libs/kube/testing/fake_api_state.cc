#include "libs/kube/testing/fake_api_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/kube/testing/field_ownership.h"
#include "libs/kube/testing/object_rules.h"
#include "libs/kube/testing/patch.h"
#include "libs/kube/testing/type_rules.h"

namespace capstan::kube::testing {
namespace {

// k8s.io/apiserver/pkg/storage/names, apimachinery/pkg/util/rand.
constexpr absl::string_view kSuffixLetters = "bcdfghjklmnpqrstvwxz2456789";
constexpr size_t kMaxGeneratedBase = 58;
constexpr int kGenerateTries = 8;

FieldManager ManagerOf(const FakeType& type, const WriteOptions& options,
                       absl::string_view subresource, absl::Time now) {
  return {options.field_manager, ApiVersion(type.resource), std::string(subresource), type.builtin,
          now};
}

// A uid in what replaces an object is a precondition; in a patch it is a field that stays.
absl::optional<ApiError> CheckUid(const FakeType& type, const Json& before, const Json& submitted) {
  const std::string asked = Text(Find(submitted, {"metadata", "uid"}));
  const std::string uid = Text(Find(before, {"metadata", "uid"}));
  if (asked.empty() || asked == uid) return absl::nullopt;
  const std::string name = Text(Find(before, {"metadata", "name"}));
  return Conflict(type.resource, name,
                  absl::StrCat("StorageError: invalid object, Code: 4, Key: /registry/",
                               type.resource.plural, "/", name,
                               ", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID "
                               "in precondition: ",
                               asked, ", UID in object meta: ", uid));
}

}  // namespace

FakeApiState::FakeApiState(FakeApiStateOptions options, const Clock* clock, Random* random)
    : options_(options), clock_(clock), random_(random), store_(options.max_history) {
  RefreshTypes();
  const FakeType& namespaces = *FindType("", "v1", "namespaces");
  for (const char* const name : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    (void)Create(namespaces, "", {{"metadata", {{"name", name}}}},
                 {.field_manager = "kube-apiserver"});
  }
  RunControllers();
}

const FakeType* FakeApiState::FindType(absl::string_view group, absl::string_view version,
                                       absl::string_view plural) const {
  for (const FakeType* const type : types_) {
    if (type->resource.group == group && type->resource.version == version &&
        type->resource.plural == plural) {
      return type;
    }
  }
  return nullptr;
}

const FakeType& FakeApiState::TypeOf(const ResourceType& resource) const {
  const FakeType* const type = FindType(resource.group, resource.version, resource.plural);
  static const FakeType* const none = new FakeType();
  return type == nullptr ? *none : *type;
}

const FakeType* FakeApiState::TypeOfStore(absl::string_view store_name) const {
  for (const FakeType* const type : types_) {
    if (type->StoreName() == store_name) return type;
  }
  return nullptr;
}

StoreKey FakeApiState::KeyOf(const FakeType& type, absl::string_view ns,
                             absl::string_view name) const {
  return {type.StoreName(), type.resource.namespaced ? std::string(ns) : "", std::string(name)};
}

ApiOr<Json> FakeApiState::Get(const FakeType& type, absl::string_view ns,
                              absl::string_view name) const {
  const ObjectRef object = store_.Get(KeyOf(type, ns, name));
  if (object == nullptr) return NotFound(type.resource, name);
  Json shown = *object;
  shown["apiVersion"] = ApiVersion(type.resource);
  return shown;
}

absl::optional<ApiError> FakeApiState::CheckNamespace(const FakeType& type, absl::string_view ns,
                                                      absl::string_view name) const {
  if (!type.resource.namespaced) return absl::nullopt;
  const FakeType& namespaces = *FindType("", "v1", "namespaces");
  const ObjectRef space = store_.Get(KeyOf(namespaces, "", ns));
  if (space == nullptr) return NotFound(namespaces.resource, ns);
  if (Member((*space)["metadata"], "deletionTimestamp").is_null()) return absl::nullopt;
  return Forbidden(type.resource, name,
                   absl::StrCat("unable to create new content in namespace ", ns,
                                " because it is being terminated"),
                   {{"NamespaceTerminating", absl::StrCat("namespace ", ns, " is being terminated"),
                     "metadata.namespace"}});
}

absl::optional<ApiError> FakeApiState::CheckBody(const FakeType& type, absl::string_view ns,
                                                 Json* object, const WriteOptions& options) const {
  if (auto error = CheckShape(type, *object); error.has_value()) return error;
  const std::string version = Text(Member(*object, "apiVersion"));
  if (!version.empty() && version != ApiVersion(type.resource)) {
    return BadRequest(absl::StrCat("the API version in the data (", version,
                                   ") does not match the expected API version (",
                                   ApiVersion(type.resource), ")"));
  }
  const std::string kind = Text(Member(*object, "kind"));
  if (!kind.empty() && kind != type.resource.kind) {
    return BadRequest(absl::StrCat(kind, " in version \"", type.resource.version,
                                   "\" cannot be handled as a ", type.resource.kind));
  }
  Json& metadata = (*object)["metadata"];
  if (metadata.is_null()) metadata = Json::object();
  const std::string own = Text(Member(metadata, "namespace"));
  if (type.resource.namespaced) {
    if (!own.empty() && own != ns) {
      return BadRequest(
          "the namespace of the provided object does not match the namespace sent on the request");
    }
    metadata["namespace"] = std::string(ns);
  } else if (!own.empty()) {
    return BadRequest("namespace may not be set for a resource that has none");
  }
  return DropUnknown(type, object, options);
}

absl::optional<ApiError> FakeApiState::DropUnknown(const FakeType& type, Json* object,
                                                   const WriteOptions& options) const {
  std::vector<std::string> fields = UnknownMembers(type, *object);
  for (const std::string& field : fields) object->erase(field);
  if (!options.strict) return absl::nullopt;
  if (hooks_.unknown_fields) {
    for (std::string& field : hooks_.unknown_fields(type, *object)) {
      fields.push_back(std::move(field));
    }
  }
  if (fields.empty()) return absl::nullopt;
  return BadRequest(absl::StrCat("strict decoding error: unknown field \"",
                                 absl::StrJoin(fields, "\", unknown field \""), "\""));
}

ApiOr<Json> FakeApiState::Create(const FakeType& type, absl::string_view ns, Json object,
                                 const WriteOptions& options) {
  if (auto error = CheckBody(type, ns, &object, options); error.has_value()) return *error;
  if (type.create_only) {
    const bool is_token = type.resource.kind == "TokenReview";
    const auto& review = is_token ? hooks_.review_token : hooks_.review_access;
    object["apiVersion"] = ApiVersion(type.resource);
    object["kind"] = type.resource.kind;
    object["metadata"].erase("name");
    if (review) {
      object["status"] = review(object);
    } else {
      object["status"] = is_token ? Json{{"authenticated", false}} : Json{{"allowed", true}};
    }
    return object;
  }
  return Insert(type, ns, std::move(object), options, /*apply=*/false);
}

ApiOr<Json> FakeApiState::Insert(const FakeType& type, absl::string_view ns, Json object,
                                 const WriteOptions& options, bool apply) {
  Json& metadata = object["metadata"];
  const std::string base = Text(Member(metadata, "generateName"));
  const bool generate = Text(Member(metadata, "name")).empty() && !base.empty();
  if (auto error = CheckNamespace(type, ns, Text(Member(metadata, "name"))); error.has_value()) {
    return *error;
  }
  StoreKey key;
  for (int i = 0; i < (generate ? kGenerateTries : 1); ++i) {
    if (generate) {
      std::string name = base.substr(0, kMaxGeneratedBase);
      for (int letter = 0; letter < 5; ++letter) {
        name += kSuffixLetters[random_->Below(kSuffixLetters.size())];
      }
      metadata["name"] = name;
    }
    key = KeyOf(type, ns, Text(Member(metadata, "name")));
    if (store_.Get(key) == nullptr) break;
  }
  // ErrResourceVersionSetOnCreate, which no one turns into a better error.
  const std::string version = Text(Member(metadata, "resourceVersion"));
  if (!version.empty() && version != "0") {
    return ApiError{500, "", "resourceVersion should not be set on objects to be created", nullptr,
                    ""};
  }
  for (const char* const name : {"deletionTimestamp", "deletionGracePeriodSeconds", "generation",
                                 "uid", "resourceVersion"}) {
    metadata.erase(name);
  }
  const absl::Time now = clock_->Read().wall;
  metadata["uid"] = random_->Uuid4();
  metadata["creationTimestamp"] = ToMetaTime(now);
  if (type.generation) metadata["generation"] = 1;
  Normalise(type, &object);
  InitialStatus(type, &object);
  if (!apply) {
    object["metadata"].erase("managedFields");
    TrackUpdate(nullptr, &object, ManagerOf(type, options, "", now));
  }
  if (hooks_.admit) {
    if (auto error = hooks_.admit(type, nullptr, object); error.has_value()) return *error;
  }
  if (auto error = ValidateNew(type, object); error.has_value()) return *error;
  if (const ObjectRef there = store_.Get(key); there != nullptr) {
    ApiError error = AlreadyExists(type.resource, key.name);
    if (!Find(*there, {"metadata", "deletionTimestamp"}).is_null()) {
      error.message = absl::StrCat("object is being deleted: ", error.message);
    }
    return error;
  }
  if (type.resource.kind == "CustomResourceDefinition") {
    // What the API server's own controllers find a moment later.
    const Json names = Find(object, {"spec", "names"});
    object["status"] = {{"acceptedNames", names}, {"storedVersions", Json::array()}};
    for (const char* const condition : {"NamesAccepted", "Established"}) {
      object["status"]["conditions"].push_back(
          {{"type", condition}, {"status", "True"}, {"lastTransitionTime", ToMetaTime(now)}});
    }
  }
  if (options.dry_run) return object;
  Put(type, key, std::move(object));
  return Get(type, ns, key.name);
}

ApiOr<Written> FakeApiState::Update(const FakeType& type, absl::string_view ns,
                                    absl::string_view name, absl::string_view subresource,
                                    Json object, const WriteOptions& options) {
  if (auto error = CheckBody(type, ns, &object, options); error.has_value()) return *error;
  const Json& metadata = object["metadata"];
  const std::string own = Text(Member(metadata, "name"));
  if (own != name) {
    return BadRequest(own.empty()
                          ? std::string("name must be provided")
                          : absl::StrCat("the name of the object (", own,
                                         ") does not match the name on the URL (", name, ")"));
  }
  const StoreKey key = KeyOf(type, ns, name);
  const ObjectRef before = store_.Get(key);
  if (before == nullptr) {
    if (!type.create_on_update || !subresource.empty()) return NotFound(type.resource, name);
    CAPSTAN_API_ASSIGN_OR_RETURN(Json created,
                                 Insert(type, ns, std::move(object), options, /*apply=*/false));
    return Written{std::move(created), true};
  }
  if (auto error = CheckUid(type, *before, object); error.has_value()) return *error;
  const std::string version = Text(Member(metadata, "resourceVersion"));
  if (version.empty() || version == "0") {
    if (!type.unconditional_update) {
      return Invalid(
          type.resource.plural, type.resource.group, name,
          {InvalidValue("metadata.resourceVersion", "0x0", "must be specified for an update")});
    }
  } else if (version != Text(Find(*before, {"metadata", "resourceVersion"}))) {
    return Modified(type.resource, name);
  }
  return Replace(type, key, *before, std::move(object), subresource, options, /*apply=*/false);
}

ApiOr<Written> FakeApiState::Patch(const FakeType& type, absl::string_view ns,
                                   absl::string_view name, absl::string_view subresource,
                                   PatchKind kind, const Json& patch, const WriteOptions& options) {
  const StoreKey key = KeyOf(type, ns, name);
  const ObjectRef before = store_.Get(key);
  const FieldManager manager = ManagerOf(type, options, subresource, clock_->Read().wall);
  if (kind == PatchKind::kApply) {
    Json config = patch;
    if (Text(Member(config, "apiVersion")).empty() || Text(Member(config, "kind")).empty()) {
      return BadRequest("invalid object type: /, Kind=");
    }
    if (auto error = CheckBody(type, ns, &config, options); error.has_value()) return *error;
    if (!Find(config, {"metadata", "managedFields"}).is_null()) {
      return BadRequest("metadata.managedFields must be nil");
    }
    const std::string own = Text(Find(config, {"metadata", "name"}));
    if (!own.empty() && own != name) {
      return BadRequest(absl::StrCat("the name of the object (", own,
                                     ") does not match the name on the URL (", name, ")"));
    }
    config["metadata"]["name"] = std::string(name);
    // What the endpoint does not write is not owned through it.
    if (subresource == "status") {
      config.erase("spec");
      for (const char* const part : {"labels", "annotations", "finalizers", "ownerReferences"}) {
        config["metadata"].erase(part);
      }
    } else if (type.status) {
      config.erase("status");
    }
    if (before == nullptr) {
      if (!subresource.empty()) return NotFound(type.resource, name);
      const std::string uid = Text(Find(config, {"metadata", "uid"}));
      if (!uid.empty()) {
        return Conflict(type.resource, name,
                        absl::StrCat("uid mismatch: the provided object specified uid ", uid,
                                     ", and no existing object was found"));
      }
      config["metadata"].erase("resourceVersion");
      CAPSTAN_API_ASSIGN_OR_RETURN(Json fresh, Apply(nullptr, config, manager, options.force));
      CAPSTAN_API_ASSIGN_OR_RETURN(Json created,
                                   Insert(type, ns, std::move(fresh), options, /*apply=*/true));
      return Written{std::move(created), true};
    }
    const std::string version = Text(Find(config, {"metadata", "resourceVersion"}));
    if (!version.empty() && version != Text(Find(*before, {"metadata", "resourceVersion"}))) {
      return Modified(type.resource, name);
    }
    Json live = *before;
    live["apiVersion"] = ApiVersion(type.resource);
    CAPSTAN_API_ASSIGN_OR_RETURN(Json merged, Apply(live, config, manager, options.force));
    // Owned by no one, hence not merged; another one is refused as a change.
    const std::string uid = Text(Find(config, {"metadata", "uid"}));
    if (!uid.empty()) merged["metadata"]["uid"] = uid;
    return Replace(type, key, *before, std::move(merged), subresource, options, /*apply=*/true);
  }
  if (before == nullptr) return NotFound(type.resource, name);
  Json live = *before;
  live["apiVersion"] = ApiVersion(type.resource);
  ApiOr<Json> patched = kind == PatchKind::kJson    ? JsonPatch(live, patch)
                        : kind == PatchKind::kMerge ? MergePatch(live, patch)
                                                    : StrategicMergePatch(live, patch);
  if (!patched.ok()) return patched.error();
  if (auto error = CheckShape(type, *patched); error.has_value()) return *error;
  const std::string version = Text(Find(*patched, {"metadata", "resourceVersion"}));
  if (!version.empty() && version != Text(Find(*before, {"metadata", "resourceVersion"}))) {
    return Modified(type.resource, name);
  }
  if (auto error = DropUnknown(type, &*patched, options); error.has_value()) return *error;
  return Replace(type, key, *before, std::move(*patched), subresource, options, /*apply=*/false);
}

ApiOr<Written> FakeApiState::Replace(const FakeType& type, const StoreKey& key, const Json& before,
                                     Json after, absl::string_view subresource,
                                     const WriteOptions& options, bool apply) {
  const absl::Time now = clock_->Read().wall;
  after = Admissible(type, before, std::move(after), subresource);
  Normalise(type, &after);
  if (!apply) TrackUpdate(before, &after, ManagerOf(type, options, subresource, now));
  RaiseGeneration(type, before, &after);
  if (hooks_.admit) {
    if (auto error = hooks_.admit(type, before, after); error.has_value()) return *error;
  }
  if (auto error = ValidateChange(type, before, after); error.has_value()) return *error;
  Json comparable = before;
  comparable["apiVersion"] = after["apiVersion"];
  if (comparable == after || options.dry_run) return Written{std::move(after), false};
  const Json& metadata = Member(after, "metadata");
  const Json& grace = Member(metadata, "deletionGracePeriodSeconds");
  if (metadata.contains("deletionTimestamp") && Finalizers(after).empty() && grace == Json(0) &&
      type.resource.kind != "Namespace") {
    Json last = Remove(key);
    after["metadata"]["resourceVersion"] = last["metadata"]["resourceVersion"];
    return Written{std::move(after), false};
  }
  Put(type, key, std::move(after));
  Json stored = *store_.Get(key);
  stored["apiVersion"] = ApiVersion(type.resource);
  return Written{std::move(stored), false};
}

void FakeApiState::Put(const FakeType& type, const StoreKey& key, Json object) {
  const Json& metadata = Member(object, "metadata");
  collect_ = collect_ || metadata.contains("ownerReferences") ||
             metadata.contains("deletionTimestamp") || type.resource.kind == "Namespace";
  store_.Put(key, std::move(object));
  if (type.resource.kind == "CustomResourceDefinition") RefreshTypes();
}

Json FakeApiState::Remove(const StoreKey& key) {
  collect_ = true;
  const ObjectRef last = store_.Remove(key);
  if (key.resource == "apiextensions.k8s.io/customresourcedefinitions") RefreshTypes();
  return *last;
}

void FakeApiState::RefreshTypes() {
  if (all_types_.empty()) {
    for (FakeType& type : BuiltinTypes()) all_types_.push_back(std::move(type));
  }
  types_.clear();
  for (const FakeType& type : all_types_) {
    if (type.builtin) types_.push_back(&type);
  }
  for (const auto& [key, definition] :
       store_.List("apiextensions.k8s.io/customresourcedefinitions", "")) {
    for (FakeType& type : TypesOfDefinition(*definition)) {
      all_types_.push_back(std::move(type));
      types_.push_back(&all_types_.back());
    }
  }
}

}  // namespace capstan::kube::testing
