#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PARTED_DIGEST_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PARTED_DIGEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/digest/sha256.h"

namespace capstan::data_loader {

// SHA-256 of a file whose parts come in any order and from several threads: hashed from its
// beginning as far as it is there, so that little is left to do when the last part has come.
// Thread-safe.
class PartedDigest {
 public:
  // Gives the file's bytes [offset, offset + size) in order, in pieces.
  using Reader = absl::FunctionRef<absl::Status(
      int64_t offset, int64_t size, absl::FunctionRef<absl::Status(absl::string_view)> sink)>;

  explicit PartedDigest(int64_t size) : size_(size) {}

  // These bytes are there now, and were not before. Reads and hashes what has become one piece with
  // what was hashed, unless another call is at it: that one goes on then. The 32 bytes come from
  // the call that hashes the file's last byte. After an error of the reader there is no digest.
  absl::StatusOr<absl::optional<std::string>> Add(int64_t offset, int64_t size, Reader read);

 private:
  const int64_t size_;
  absl::Mutex mutex_;
  // Ends of what is there and not hashed, by beginning.
  std::map<int64_t, int64_t> waiting_ ABSL_GUARDED_BY(mutex_);
  // Whether a call is hashing; what follows is that call's.
  bool hashing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t hashed_ = 0;
  Sha256 hash_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PARTED_DIGEST_H_
