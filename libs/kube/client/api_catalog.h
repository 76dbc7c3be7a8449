// What an API server serves.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_API_CATALOG_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_API_CATALOG_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/resource_type.h"

namespace capstan::kube {

// UNAVAILABLE: an aggregated API server does not answer, so what it serves is not known.
inline constexpr char kApiUnavailable[] = "KUBE_API_UNAVAILABLE";

struct ServerVersion {
  std::string major;
  std::string minor;
  // `v1.36.0`.
  std::string git_version;
};
// INVALID_ARGUMENT with reason OBJECT_MALFORMED, as all parsers here.
absl::StatusOr<ServerVersion> ParseServerVersion(absl::string_view json);

struct ApiResource {
  ResourceType type;
  std::set<std::string> verbs;
  // With their verbs: `status`, `scale`.
  std::map<std::string, std::set<std::string>> subresources;
};

// Kinds by resource and resources by kind. A value; const methods are for any thread.
class ApiCatalog {
 public:
  // The later of two for one resource counts.
  void Add(ApiResource resource);
  // `group/version` is there, and what is in it is not known.
  void AddUnavailable(absl::string_view group, absl::string_view version);
  // In the server's order, the preferred one first.
  void AddVersion(absl::string_view group, absl::string_view version);

  // Null: not there.
  const ApiResource* FindKind(absl::string_view group, absl::string_view version,
                              absl::string_view kind) const;
  const ApiResource* FindPlural(absl::string_view group, absl::string_view version,
                                absl::string_view plural) const;
  // Of the version that the server prefers among those with the kind.
  const ApiResource* FindPreferred(absl::string_view group, absl::string_view kind) const;
  // Empty: the server does not have the group.
  std::vector<std::string> Versions(absl::string_view group) const;

  // OK if the server has the resource with the verb, of the subresource if one is given. Else
  // FAILED_PRECONDITION with reason kApiMissing, which names what is missing and which versions
  // there are, or UNAVAILABLE with reason kApiUnavailable.
  absl::Status Require(const ResourceType& type, absl::string_view verb,
                       absl::string_view subresource = "") const;

  size_t size() const { return resources_.size(); }

 private:
  using GroupVersion = std::pair<std::string, std::string>;

  std::map<std::pair<GroupVersion, std::string>, ApiResource> resources_;
  // By kind, to the plural.
  std::map<std::pair<GroupVersion, std::string>, std::string> plurals_;
  std::map<std::string, std::vector<std::string>> versions_;
  std::set<GroupVersion> unavailable_;
};

// Adds an APIGroupDiscoveryList. False: the text is another document, as old servers give.
absl::StatusOr<bool> AddAggregatedDiscovery(absl::string_view json, ApiCatalog* catalog);

struct GroupVersionName {
  std::string group;
  std::string version;
};
// Of /api (APIVersions) and /apis (APIGroupList), preferred versions first.
absl::StatusOr<std::vector<GroupVersionName>> ParseGroups(absl::string_view json);
// Adds an APIResourceList: /api/v1, /apis/apps/v1.
absl::Status AddResourceList(absl::string_view json, const GroupVersionName& name,
                             ApiCatalog* catalog);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_API_CATALOG_H_
