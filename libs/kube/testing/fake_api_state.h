// The state of a Kubernetes API server without HTTP: objects and what may be done to them.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_STATE_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_type.h"
#include "libs/kube/testing/json.h"
#include "libs/kube/testing/revision_store.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::kube::testing {

// What a test may decide. An empty one does what is said of it.
struct FakeHooks {
  // Admission of a write: `before` is null for a create, `after` for a delete. Empty: everything.
  std::function<absl::optional<ApiError>(const FakeType& type, const Json& before,
                                         const Json& after)>
      admit;
  // Of an eviction, before PodDisruptionBudgets are looked at. Empty: they alone decide.
  std::function<absl::optional<ApiError>(const Json& pod)> disrupt;
  // The status of a TokenReview. Empty: not authenticated.
  std::function<Json(const Json& review)> review_token;
  // The status of a SubjectAccessReview or SelfSubjectAccessReview. Empty: allowed.
  std::function<Json(const Json& review)> review_access;
  // Names of fields that the type has not, of a write with fieldValidation=Strict, which is then
  // refused. Empty: none.
  std::function<std::vector<std::string>(const FakeType& type, const Json& object)> unknown_fields;
};

struct FakeApiStateOptions {
  // Changes that watches can go back to.
  size_t max_history = 10000;
  // Garbage collection, ends of namespaces, default ServiceAccounts: what kube-controller-manager
  // does. Else these stay as the API server alone leaves them.
  bool controllers = true;
};

struct WriteOptions {
  bool dry_run = false;
  // Of managedFields.
  std::string field_manager = "unknown";
  // Of apply.
  bool force = false;
  bool strict = false;
};

struct Written {
  Json object;
  bool created = false;
};

struct DeleteOptions {
  bool dry_run = false;
  absl::optional<int64_t> grace_period_seconds;
  absl::optional<std::string> uid;
  absl::optional<std::string> resource_version;
  // Orphan, Background, Foreground; absent: the object's finalizers decide.
  absl::optional<std::string> propagation;
  // orphanDependents, which is deprecated, was said and is false: 202 if the object stays for now.
  bool takes_dependents = false;
};

struct Deleted {
  // The object, or a Status.
  Json body;
  // It is gone, and does not wait for finalizers or a kubelet.
  bool gone = false;
  int code = 200;
};

enum class PatchKind { kJson, kMerge, kStrategic, kApply };

// Does what kube-apiserver 1.36 does with the requests that it knows, and for the rest refuses
// rather than guesses. Objects are as the API shows them, with apiVersion and kind.
//
// Modelled: the life of objects with all that metadata say (names, uids, generations, finalizers,
// owners, managedFields), namespaces, optimistic concurrency, patches and apply, deletion with its
// options, subresources status, scale, binding, eviction, token; validation and defaults of what
// clients commonly meet, and no more. Not modelled: users and their rights, quotas, webhooks,
// conversion between versions, the mirror of core events in events.k8s.io, kubelets (a Pod that is
// deleted with grace stays until someone deletes it with none).
//
// Pure; for one thread. Time is the clock's wall time. Equal seeds and calls give equal states.
class FakeApiState {
 public:
  // `clock` and `random` must outlive it. Namespaces default, kube-system, kube-public and
  // kube-node-lease exist.
  FakeApiState(FakeApiStateOptions options, const Clock* clock, Random* random);
  FakeApiState(const FakeApiState&) = delete;
  FakeApiState& operator=(const FakeApiState&) = delete;

  FakeHooks& hooks() { return hooks_; }
  const RevisionStore& store() const { return store_; }
  const Clock& clock() const { return *clock_; }
  // Those served, in the order of registration. They stay valid as long as this does.
  const std::vector<const FakeType*>& types() const { return types_; }
  // Null if it is not served.
  const FakeType* FindType(absl::string_view group, absl::string_view version,
                           absl::string_view plural) const;
  // The type, which must be served.
  const FakeType& TypeOf(const ResourceType& resource) const;

  ApiOr<Json> Get(const FakeType& type, absl::string_view ns, absl::string_view name) const;
  // `ns` is "" for what has none. All checks of a POST but those of HTTP.
  ApiOr<Json> Create(const FakeType& type, absl::string_view ns, Json object,
                     const WriteOptions& options = {});
  // `subresource` is "" or "status".
  ApiOr<Written> Update(const FakeType& type, absl::string_view ns, absl::string_view name,
                        absl::string_view subresource, Json object,
                        const WriteOptions& options = {});
  ApiOr<Written> Patch(const FakeType& type, absl::string_view ns, absl::string_view name,
                       absl::string_view subresource, PatchKind kind, const Json& patch,
                       const WriteOptions& options = {});
  ApiOr<Deleted> Delete(const FakeType& type, absl::string_view ns, absl::string_view name,
                        const DeleteOptions& options = {});

  // autoscaling/v1 Scale.
  // The Scale of an object that has one, if only of 0.
  Json ScaleOf(const FakeType& type, const Json& object) const;
  ApiOr<Json> GetScale(const FakeType& type, absl::string_view ns, absl::string_view name) const;
  ApiOr<Json> UpdateScale(const FakeType& type, absl::string_view ns, absl::string_view name,
                          const Json& scale, const WriteOptions& options = {});
  // A Binding, an Eviction; the answer is a Status.
  ApiOr<Json> Bind(absl::string_view ns, absl::string_view name, const Json& binding,
                   const WriteOptions& options = {});
  ApiOr<Json> Evict(absl::string_view ns, absl::string_view name, const Json& eviction,
                    const WriteOptions& options = {});
  // A TokenRequest; the token is no secret and says whose it is.
  ApiOr<Json> CreateToken(absl::string_view ns, absl::string_view name, Json request);

  // What the controllers have to do after the calls before; call it when they are answered.
  // Without effect if options.controllers is false.
  void RunControllers();
  // Forgets the past up to `revision`.
  void Compact(int64_t revision) { store_.Compact(revision); }

 private:
  StoreKey KeyOf(const FakeType& type, absl::string_view ns, absl::string_view name) const;
  const FakeType* TypeOfStore(absl::string_view store_name) const;
  absl::optional<ApiError> CheckNamespace(const FakeType& type, absl::string_view ns,
                                          absl::string_view name) const;
  absl::optional<ApiError> CheckBody(const FakeType& type, absl::string_view ns, Json* object,
                                     const WriteOptions& options) const;
  // Of fields that the type has not: refused where the write is strict, else left out.
  absl::optional<ApiError> DropUnknown(const FakeType& type, Json* object,
                                       const WriteOptions& options) const;
  ApiOr<Json> Insert(const FakeType& type, absl::string_view ns, Json object,
                     const WriteOptions& options, bool apply);
  // Validates `after`, which has passed Admissible, and stores it.
  ApiOr<Written> Replace(const FakeType& type, const StoreKey& key, const Json& before, Json after,
                         absl::string_view subresource, const WriteOptions& options, bool apply);
  ApiOr<Deleted> DeleteNamespace(const FakeType& type, const StoreKey& key, const Json& before,
                                 const DeleteOptions& options);
  // Stores or removes, and notes what the controllers have to do.
  void Put(const FakeType& type, const StoreKey& key, Json object);
  Json Remove(const StoreKey& key);
  void RefreshTypes();

  // Takes an owner out of what it owns.
  bool Disown(const FakeType& type, const StoreKey& key, const Json& child, const Json& owner_uid);
  bool CollectOnce();
  bool EndNamespaces();
  bool DropUnservedObjects();
  void AddDefaults(const std::string& ns);

  const FakeApiStateOptions options_;
  const Clock* const clock_;
  Random* const random_;
  FakeHooks hooks_;
  RevisionStore store_;
  // Also those that are served no more, to which calls may refer.
  std::deque<FakeType> all_types_;
  std::vector<const FakeType*> types_;
  // Something that the garbage collector looks at has changed.
  bool collect_ = false;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_STATE_H_
