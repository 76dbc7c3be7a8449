#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_JWT_DOCUMENTS_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_JWT_DOCUMENTS_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

// The committed keys as texts for those who verify.
struct JwtDocuments {
  // For `/keys` of the issuer: each key with `use` `sig`.
  std::string openid_keys;
  // For the Workload API: a SPIFFE bundle.
  std::string spiffe_keys;
  absl::Duration refresh_hint;
};

// Holds the newest documents; they stay while the store does not answer or the state is loaded
// anew, since keys are published long before they sign. Thread-safe.
class JwtDocumentHolder {
 public:
  void Set(const JwtKeySet& keys);
  // Null before the first set with a key.
  std::shared_ptr<const JwtDocuments> Get() const;

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const JwtDocuments> documents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_JWT_DOCUMENTS_H_
