// The types that the fake API server serves, and in what their storage differs.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FAKE_TYPE_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FAKE_TYPE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

// Fields are what the strategies of kube-apiserver 1.36 do (pkg/registry).
struct FakeType {
  ResourceType resource;
  std::string singular;
  std::string list_kind;
  std::vector<std::string> short_names;
  // False: of a CustomResourceDefinition.
  bool builtin = true;
  // Nothing is stored: TokenReview, SubjectAccessReview.
  bool create_only = false;
  // `status` is written by the subresource alone.
  bool status = false;
  // What a create brings as status is dropped.
  bool drops_status_on_create = false;
  bool scale = false;
  // metadata.generation counts changes of the spec.
  bool generation = false;
  // An update may lack a resourceVersion.
  bool unconditional_update = true;
  // PUT creates what is not there.
  bool create_on_update = false;
  // DELETE answers with the object, not with a Status.
  bool returns_deleted = false;
  // Paths of custom resources' scale subresource, `.spec.replicas`.
  std::string spec_replicas_path = ".spec.replicas";
  std::string status_replicas_path = ".status.replicas";
  std::string label_selector_path;

  // Of the store: `apps/deployments`. Versions of one group share objects.
  std::string StoreName() const { return resource.group + "/" + resource.plural; }
};

// core v1, apps/v1, coordination.k8s.io/v1, policy/v1, events.k8s.io/v1, authentication.k8s.io/v1
// and authorization.k8s.io/v1 reviews, apiextensions.k8s.io/v1.
std::vector<FakeType> BuiltinTypes();

// One for each served version of a CustomResourceDefinition.
std::vector<FakeType> TypesOfDefinition(const Json& definition);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FAKE_TYPE_H_
