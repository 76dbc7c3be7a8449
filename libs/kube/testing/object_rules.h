// What an API server does to an object before it stores it, and what it refuses: rest.BeforeCreate,
// rest.BeforeUpdate and the strategies of the builtin types, as far as clients meet them.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_OBJECT_RULES_H_
#define CAPSTAN_LIBS_KUBE_TESTING_OBJECT_RULES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_type.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

// As metav1.Time is written.
std::string ToMetaTime(absl::Time time);

// Where the value of a field is of the wrong shape, 400, as a typed decoder finds.
absl::optional<ApiError> CheckShape(const FakeType& type, const Json& object);
// Drops what typed objects cannot hold (nulls, empty maps of metadata), merges a Secret's
// stringData, and fills the defaults that this folder knows.
void Normalise(const FakeType& type, Json* object);
// The status that a new object has.
void InitialStatus(const FakeType& type, Json* object);

// 422 with all causes.
absl::optional<ApiError> ValidateNew(const FakeType& type, const Json& object);
absl::optional<ApiError> ValidateChange(const FakeType& type, const Json& before,
                                        const Json& after);

// What an update through `subresource` ("" or "status") may change of `before`; the server's own
// metadata stay.
Json Admissible(const FakeType& type, const Json& before, Json submitted,
                absl::string_view subresource);
// Raises metadata.generation if the spec has changed.
void RaiseGeneration(const FakeType& type, const Json& before, Json* after);

std::vector<std::string> Finalizers(const Json& object);
void SetFinalizers(Json* object, const std::vector<std::string>& finalizers);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_OBJECT_RULES_H_
