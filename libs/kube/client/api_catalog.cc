#include "libs/kube/client/api_catalog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "libs/kube/client/discovery_wire.pb.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/object_error.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

absl::Status ParseInto(absl::string_view json, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(
           google::protobuf::StringPiece(json.data(), json.size()), message, options)
           .ok()) {
    return ObjectMalformed("what the server says of its APIs is not JSON as expected");
  }
  return absl::OkStatus();
}

template <typename Strings>
std::set<std::string> SetOf(const Strings& strings) {
  return {strings.begin(), strings.end()};
}

std::string FullName(const ResourceType& type, absl::string_view subresource) {
  return absl::StrCat(type.plural, subresource.empty() ? "" : "/", subresource, " of ",
                      ApiVersion(type));
}

}  // namespace

absl::StatusOr<ServerVersion> ParseServerVersion(absl::string_view json) {
  discovery::Version wire;
  CAPSTAN_RETURN_IF_ERROR(ParseInto(json, &wire));
  return ServerVersion{wire.major(), wire.minor(), wire.git_version()};
}

void ApiCatalog::Add(ApiResource resource) {
  const GroupVersion at(resource.type.group, resource.type.version);
  AddVersion(at.first, at.second);
  plurals_[{at, resource.type.kind}] = resource.type.plural;
  resources_[{at, resource.type.plural}] = std::move(resource);
}

void ApiCatalog::AddUnavailable(absl::string_view group, absl::string_view version) {
  AddVersion(group, version);
  unavailable_.emplace(group, version);
}

void ApiCatalog::AddVersion(absl::string_view group, absl::string_view version) {
  std::vector<std::string>& versions = versions_[std::string(group)];
  if (std::find(versions.begin(), versions.end(), version) == versions.end()) {
    versions.emplace_back(version);
  }
}

const ApiResource* ApiCatalog::FindPlural(absl::string_view group, absl::string_view version,
                                          absl::string_view plural) const {
  const auto found = resources_.find({GroupVersion(group, version), std::string(plural)});
  return found == resources_.end() ? nullptr : &found->second;
}

const ApiResource* ApiCatalog::FindKind(absl::string_view group, absl::string_view version,
                                        absl::string_view kind) const {
  const auto found = plurals_.find({GroupVersion(group, version), std::string(kind)});
  return found == plurals_.end() ? nullptr : FindPlural(group, version, found->second);
}

const ApiResource* ApiCatalog::FindPreferred(absl::string_view group,
                                             absl::string_view kind) const {
  for (const std::string& version : Versions(group)) {
    if (const ApiResource* found = FindKind(group, version, kind)) return found;
  }
  return nullptr;
}

std::vector<std::string> ApiCatalog::Versions(absl::string_view group) const {
  const auto found = versions_.find(std::string(group));
  return found == versions_.end() ? std::vector<std::string>() : found->second;
}

absl::Status ApiCatalog::Require(const ResourceType& type, absl::string_view verb,
                                 absl::string_view subresource) const {
  const ApiResource* found = FindPlural(type.group, type.version, type.plural);
  if (found == nullptr && unavailable_.contains(GroupVersion(type.group, type.version))) {
    return status::Error(
        absl::StatusCode::kUnavailable, kApiUnavailable,
        absl::StrCat("the server behind ", ApiVersion(type), " does not answer, so whether it has ",
                     type.plural, " is not known; look at its APIService"));
  }
  const std::set<std::string>* verbs = found == nullptr ? nullptr : &found->verbs;
  if (found != nullptr && !subresource.empty()) {
    const auto sub = found->subresources.find(std::string(subresource));
    verbs = sub == found->subresources.end() ? nullptr : &sub->second;
  }
  std::string missing;
  if (verbs == nullptr) {
    const std::vector<std::string> versions = Versions(type.group);
    missing = absl::StrCat("no ", FullName(type, found == nullptr ? "" : subresource),
                           "; of this group it has ",
                           versions.empty() ? "nothing" : absl::StrJoin(versions, ", "));
  } else if (!verbs->contains(std::string(verb))) {
    missing = absl::StrCat("no ", verb, " for ", FullName(type, subresource), "; it has ",
                           absl::StrJoin(*verbs, ", "));
  } else {
    return absl::OkStatus();
  }
  return status::Error(absl::StatusCode::kFailedPrecondition, kApiMissing,
                       absl::StrCat("the Kubernetes API server has ", missing,
                                    "; install the API or upgrade the cluster"),
                       {{"resource", type.plural},
                        {"api_version", ApiVersion(type)},
                        {"subresource", std::string(subresource)},
                        {"verb", std::string(verb)}});
}

absl::StatusOr<bool> AddAggregatedDiscovery(absl::string_view json, ApiCatalog* catalog) {
  CAPSTAN_ASSIGN_OR_RETURN(const JsonHead head, ReadJsonHead(json));
  if (head.kind != "APIGroupDiscoveryList") return false;
  discovery::GroupDiscoveryList wire;
  CAPSTAN_RETURN_IF_ERROR(ParseInto(json, &wire));
  for (const auto& group : wire.items()) {
    for (const auto& version : group.versions()) {
      const std::string& name = group.metadata().name();
      if (version.freshness() == "Stale" && version.resources().empty()) {
        catalog->AddUnavailable(name, version.version());
        continue;
      }
      catalog->AddVersion(name, version.version());
      for (const auto& resource : version.resources()) {
        ApiResource added;
        added.type = {name, version.version(), resource.response_kind().kind(), resource.resource(),
                      resource.scope() == "Namespaced"};
        added.verbs = SetOf(resource.verbs());
        for (const auto& sub : resource.subresources()) {
          added.subresources[sub.subresource()] = SetOf(sub.verbs());
        }
        catalog->Add(std::move(added));
      }
    }
  }
  return true;
}

absl::StatusOr<std::vector<GroupVersionName>> ParseGroups(absl::string_view json) {
  CAPSTAN_ASSIGN_OR_RETURN(const JsonHead head, ReadJsonHead(json));
  std::vector<GroupVersionName> names;
  if (head.kind == "APIVersions") {
    discovery::ApiVersions wire;
    CAPSTAN_RETURN_IF_ERROR(ParseInto(json, &wire));
    for (const std::string& version : wire.versions()) names.push_back({"", version});
    return names;
  }
  if (head.kind != "APIGroupList") {
    return ObjectMalformed("a list of API groups is of another kind");
  }
  discovery::ApiGroupList wire;
  CAPSTAN_RETURN_IF_ERROR(ParseInto(json, &wire));
  for (const auto& group : wire.groups()) {
    const std::string& preferred = group.preferred_version().version();
    if (!preferred.empty()) names.push_back({group.name(), preferred});
    for (const auto& version : group.versions()) {
      if (version.version() != preferred) names.push_back({group.name(), version.version()});
    }
  }
  return names;
}

absl::Status AddResourceList(absl::string_view json, const GroupVersionName& name,
                             ApiCatalog* catalog) {
  CAPSTAN_ASSIGN_OR_RETURN(const JsonHead head, ReadJsonHead(json));
  if (head.kind != "APIResourceList") {
    return ObjectMalformed("a list of API resources is of another kind");
  }
  discovery::ApiResourceList wire;
  CAPSTAN_RETURN_IF_ERROR(ParseInto(json, &wire));
  catalog->AddVersion(name.group, name.version);
  std::map<std::string, ApiResource> resources;
  for (const auto& resource : wire.resources()) {
    const size_t slash = resource.name().find('/');
    ApiResource& added = resources[resource.name().substr(0, slash)];
    if (slash != std::string::npos) {
      added.subresources[resource.name().substr(slash + 1)] = SetOf(resource.verbs());
      continue;
    }
    added.type = {name.group, name.version, resource.kind(), resource.name(),
                  resource.namespaced()};
    added.verbs = SetOf(resource.verbs());
  }
  for (auto& [plural, resource] : resources) {
    // One of which only a subresource is listed is no resource.
    if (!resource.type.plural.empty()) catalog->Add(std::move(resource));
  }
  return absl::OkStatus();
}

}  // namespace capstan::kube
