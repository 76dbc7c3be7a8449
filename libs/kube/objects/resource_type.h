// Where an API server has the objects of one kind.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_RESOURCE_TYPE_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_RESOURCE_TYPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan::kube {

struct ResourceType {
  // "" for the core.
  std::string group;
  std::string version;
  std::string kind;
  // As in URLs: `pods`.
  std::string plural;
  bool namespaced = true;

  friend bool operator==(const ResourceType&, const ResourceType&) = default;
};

// `v1`, `apps/v1`.
std::string ApiVersion(const ResourceType& type);

// `/apis/apps/v1/namespaces/default/deployments`. `ns` is empty for all namespaces, and for what
// has none. Names are escaped as a segment of a path is (RFC 3986); none can leave its segment.
std::string CollectionPath(const ResourceType& type, absl::string_view ns);

// `…/deployments/web`, `…/deployments/web/scale` with a subresource.
std::string ObjectPath(const ResourceType& type, absl::string_view ns, absl::string_view name,
                       absl::string_view subresource = "");

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_RESOURCE_TYPE_H_
