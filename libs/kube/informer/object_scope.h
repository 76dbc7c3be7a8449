// Which objects of a resource are listed and watched, and how that is asked for.
#ifndef CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_SCOPE_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_SCOPE_H_

#include <string>

#include "libs/kube/informer/reflector.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/resource_type.h"

namespace capstan::kube {

struct ObjectScope {
  ResourceType type;
  // Empty: all namespaces.
  std::string ns;
  // As the API has them: `app=web,tier!=db`, `spec.nodeName=n1`. Empty: everything.
  std::string label_selector;
  std::string field_selector;

  friend bool operator==(const ObjectScope&, const ObjectScope&) = default;
};

// For people: `pods in default with labels app=web`.
std::string ToString(const ObjectScope& scope);

// Path and query, escaped.
std::string ListTarget(const ObjectScope& scope, const ListPageRequest& request);
std::string WatchTarget(const ObjectScope& scope, const WatchRequest& request);

// The value of Accept, which is also how the Content-Type of a good answer begins. Of lists and of
// watches: the server adds `;stream=watch` itself.
const char* MediaType(Encoding encoding);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_OBJECT_SCOPE_H_
