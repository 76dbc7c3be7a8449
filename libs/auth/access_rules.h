#ifndef CAPSTAN_LIBS_AUTH_ACCESS_RULES_H_
#define CAPSTAN_LIBS_AUTH_ACCESS_RULES_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/message.h"
#include "proto/capstan/type/v1/access.pb.h"

namespace capstan::auth {

// The AccessRules written in the descriptors that are linked into this program. Thread-safe.
class AccessRules {
 public:
  // Rule of `/package.Service/Method`; null if there is no such method or it has no rule. Valid as
  // long as this object.
  const type::v1::AccessRule* Find(absl::string_view method);

 private:
  absl::Mutex mutex_;
  // Null for methods without a rule. Holds only methods that exist, so it is bounded.
  absl::flat_hash_map<std::string, std::unique_ptr<const type::v1::AccessRule>> rules_
      ABSL_GUARDED_BY(mutex_);
};

// OK if every method of the service (`package.Service`) has a rule with at least one caller, whose
// permission and resource field make sense; otherwise FAILED_PRECONDITION, naming the method.
absl::Status CheckServiceRules(absl::string_view service);

// Value of the string field at `path` (`a.b.name`); empty if a message on the way is unset.
std::string ResourceOf(const google::protobuf::Message& request, absl::string_view path);

// Project of a resource name: `p` for `projects/p` and everything below; empty for all others.
absl::string_view ProjectOf(absl::string_view resource);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_ACCESS_RULES_H_
