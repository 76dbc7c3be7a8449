// What kube-apiserver refuses of single builtin types, as far as clients meet it.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_TYPE_RULES_H_
#define CAPSTAN_LIBS_KUBE_TESTING_TYPE_RULES_H_

#include <string>
#include <vector>

#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_type.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

// All causes for which the object, of the type's shape, is invalid, but for its metadata.
std::vector<Cause> TypeCauses(const FakeType& type, const Json& object);

// Members at the top of the object that its type does not have. Of ConfigMaps and Secrets alone,
// whose members are all known here.
std::vector<std::string> UnknownMembers(const FakeType& type, const Json& object);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_TYPE_RULES_H_
