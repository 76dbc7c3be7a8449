#include "libs/kube/config/fetching_credential.h"

#include <sys/eventfd.h>

#include <utility>

#include "libs/status/error.h"

namespace capstan::kube {
namespace {

constexpr size_t kMaxWaiting = 4096;

absl::Status Stopped() {
  return status::Error(absl::StatusCode::kCancelled, "KUBE_CREDENTIAL_STOPPED",
                       "the client is being shut down, and fetches no credentials any more");
}

}  // namespace

FetchingCredential::FetchingCredential(const std::string& name,
                                       const CredentialCache::Options& options, Fetch fetch,
                                       const Clock* clock)
    : fetch_(std::move(fetch)),
      clock_(clock),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      cache_(options),
      strand_(name, clock) {}

FetchingCredential::~FetchingCredential() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  eventfd_write(stop_.get(), 1);
  strand_.Stop();
  std::vector<Done> waiting;
  {
    absl::MutexLock lock(&mutex_);
    waiting.swap(waiting_);
  }
  for (Done& done : waiting) done(Stopped());
}

void FetchingCredential::Get(Done done) {
  absl::StatusOr<Credential> answer;
  {
    absl::MutexLock lock(&mutex_);
    const Now now = clock_->Read();
    if (stopping_) {
      answer = Stopped();
    } else {
      switch (cache_.Ask(now)) {
        case CredentialCache::Answer::kGive:
          answer = cache_.credential();
          break;
        case CredentialCache::Answer::kRefuse:
          answer = cache_.Error(now);
          break;
        case CredentialCache::Answer::kFetch:
          if (waiting_.size() < kMaxWaiting) {
            waiting_.push_back(std::move(done));
            if (!std::exchange(fetching_, true)) strand_.Post([this] { Run(); });
            return;
          }
          answer = status::Error(absl::StatusCode::kResourceExhausted, "KUBE_CREDENTIAL_BUSY",
                                 "too many requests wait for a credential that is being fetched");
          break;
      }
    }
  }
  done(std::move(answer));
}

void FetchingCredential::Rejected(const Credential& credential) {
  absl::MutexLock lock(&mutex_);
  cache_.Rejected(credential, clock_->Read());
}

void FetchingCredential::Run() {
  absl::StatusOr<FetchedCredential> fetched = fetch_(stop_.get());
  const bool ok = fetched.ok();
  absl::StatusOr<Credential> answer;
  std::vector<Done> waiting;
  {
    absl::MutexLock lock(&mutex_);
    const Now now = clock_->Read();
    cache_.Fetched(std::move(fetched), now);
    if (ok || cache_.Ask(now) == CredentialCache::Answer::kGive) {
      answer = cache_.credential();
    } else {
      answer = stopping_ ? Stopped() : cache_.Error(now);
    }
    fetching_ = false;
    waiting.swap(waiting_);
  }
  for (Done& done : waiting) done(answer);
}

}  // namespace capstan::kube
