#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_FAKE_SECRET_SOURCE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_FAKE_SECRET_SOURCE_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/random/random.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// The same bytes in every run. Thread-safe.
class FakeSecretSource final : public SecretSource {
 public:
  explicit FakeSecretSource(uint64_t seed) : random_(seed) {}

  absl::StatusOr<std::string> Bytes(size_t size) override {
    absl::MutexLock lock(&mutex_);
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_.Below(256));
    return bytes;
  }

 private:
  absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_FAKE_SECRET_SOURCE_H_
