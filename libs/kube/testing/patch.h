// The patches of the Kubernetes API but apply, which is in field_ownership.h.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_PATCH_H_
#define CAPSTAN_LIBS_KUBE_TESTING_PATCH_H_

#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

// RFC 6902. 400 for what is no patch, 422 for what cannot be done, a failed test among it.
ApiOr<Json> JsonPatch(const Json& object, const Json& patch);
// RFC 7386.
ApiOr<Json> MergePatch(const Json& object, const Json& patch);
// For builtin types. Lists with a merge key (list_schema.h) merge by it; $patch (replace, delete),
// $retainKeys, $deleteFromPrimitiveList/… and $setElementOrder/… (which here changes no order) are
// obeyed.
ApiOr<Json> StrategicMergePatch(const Json& object, const Json& patch);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_PATCH_H_
