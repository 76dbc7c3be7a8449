// Who owns which field: managedFields and server-side apply.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FIELD_OWNERSHIP_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FIELD_OWNERSHIP_H_

#include <string>

#include "absl/time/time.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

struct FieldManager {
  std::string name;
  std::string api_version;
  // "" or "status".
  std::string subresource;
  bool builtin = true;
  absl::Time now;
};

// Gives `after`, which came by a create or an update, the managedFields that follow from those of
// `before` (null: none) and from what changed.
void TrackUpdate(const Json& before, Json* after, const FieldManager& manager);

// Applies `config` to `live` (null: there is none). The result has new managedFields; where nothing
// else changed and no ownership did, it equals `live`. 409 with a cause for each field of another
// manager's whose value would change, unless `force`.
ApiOr<Json> Apply(const Json& live, const Json& config, const FieldManager& manager, bool force);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FIELD_OWNERSHIP_H_
