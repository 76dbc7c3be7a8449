// What etcd is to an API server: objects, revisions, a bounded past.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_REVISION_STORE_H_
#define CAPSTAN_LIBS_KUBE_TESTING_REVISION_STORE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

using ObjectRef = std::shared_ptr<const Json>;

// Sorted as the keys of etcd are.
struct StoreKey {
  // `<group>/<plural>`, whatever the version.
  std::string resource;
  std::string ns;
  std::string name;

  friend auto operator<=>(const StoreKey&, const StoreKey&) = default;
};

struct StoreChange {
  int64_t revision = 0;
  StoreKey key;
  // Null: it was not there.
  ObjectRef before;
  // Null: it is gone.
  ObjectRef after;
};

// The object with another resource version, which is how watches show what was deleted.
ObjectRef AtRevision(const ObjectRef& object, int64_t revision);

// Each write raises the revision by one and is the object's resource version
// (metadata.resourceVersion, which it sets). Keeps the last `max_history` changes. Pure; for one
// thread.
class RevisionStore {
 public:
  // `first_revision` is that of the empty store.
  explicit RevisionStore(size_t max_history, int64_t first_revision = 1)
      : max_history_(max_history), revision_(first_revision), compacted_(first_revision) {}

  // Null if it is not there.
  ObjectRef Get(const StoreKey& key) const;
  // Returns what was stored.
  ObjectRef Put(const StoreKey& key, Json object);
  // The last state, with the deletion's revision as resource version. Null if there was nothing.
  ObjectRef Remove(const StoreKey& key);
  // Raises the revision as a write of something else does.
  void Touch();

  using Objects = std::map<StoreKey, ObjectRef>;
  // Of one resource, all namespaces if `ns` is empty.
  Objects List(absl::string_view resource, absl::string_view ns) const;
  // As of `revision`, which must be in [compacted(), revision()].
  Objects ListAt(absl::string_view resource, absl::string_view ns, int64_t revision) const;
  // The same in order, those after `after` (null: all), until `visit` gives false. Copies nothing:
  // the cost is what is visited and what has changed since `revision`. `visit` must not write.
  using Visit = absl::FunctionRef<bool(const StoreKey& key, const ObjectRef& object)>;
  void VisitAt(absl::string_view resource, absl::string_view ns, int64_t revision,
               const StoreKey* after, Visit visit) const;
  // Everything.
  const Objects& all() const { return objects_; }

  // In order; `revision` must not be below compacted().
  std::vector<StoreChange> ChangesAfter(int64_t revision) const;

  int64_t revision() const { return revision_; }
  // The oldest revision whose state and following changes are known.
  int64_t compacted() const { return compacted_; }
  // Forgets what led to `revision`; without effect if that is forgotten already.
  void Compact(int64_t revision);

 private:
  void Record(const StoreKey& key, ObjectRef before, ObjectRef after);

  const size_t max_history_;
  int64_t revision_;
  int64_t compacted_;
  Objects objects_;
  std::deque<StoreChange> history_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_REVISION_STORE_H_
