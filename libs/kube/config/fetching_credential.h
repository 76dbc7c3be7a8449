#ifndef CAPSTAN_LIBS_KUBE_CONFIG_FETCHING_CREDENTIAL_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_FETCHING_CREDENTIAL_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/kube/config/credential_cache.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/safe_path/safe_path.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Credentials that are fetched by something that blocks, on a thread of its own: one fetch at a
// time, whose result all who ask meanwhile get. When one is fetched, CredentialCache says. At most
// 4,096 wait; more are refused with RESOURCE_EXHAUSTED, reason KUBE_CREDENTIAL_BUSY.
//
// The destructor ends a fetch that runs and calls those who wait, with CANCELLED, reason
// KUBE_CREDENTIAL_STOPPED, before it returns; it must not be called by one of them.
class FetchingCredential final : public CredentialSource {
 public:
  // On the thread. Must end soon, with any error, once `stop_fd` is readable.
  using Fetch = std::function<absl::StatusOr<FetchedCredential>(int stop_fd)>;

  // `name` is the thread's; the clock must outlive it.
  FetchingCredential(const std::string& name, const CredentialCache::Options& options, Fetch fetch,
                     const Clock* clock);
  ~FetchingCredential() override;

  void Get(Done done) override;
  void Rejected(const Credential& credential) override;

 private:
  void Run();

  const Fetch fetch_;
  const Clock* const clock_;
  const UniqueFd stop_;
  absl::Mutex mutex_;
  CredentialCache cache_ ABSL_GUARDED_BY(mutex_);
  std::vector<Done> waiting_ ABSL_GUARDED_BY(mutex_);
  bool fetching_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Last, so that it is there for the others no longer than they are for it.
  ThreadStrand strand_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_FETCHING_CREDENTIAL_H_
