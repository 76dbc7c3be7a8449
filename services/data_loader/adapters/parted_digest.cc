#include "services/data_loader/adapters/parted_digest.h"

#include "libs/status/status_macros.h"

namespace capstan::data_loader {

absl::StatusOr<absl::optional<std::string>> PartedDigest::Add(int64_t offset, int64_t size,
                                                              Reader read) {
  {
    absl::MutexLock lock(&mutex_);
    waiting_[offset] = offset + size;
    if (hashing_) return absl::optional<std::string>();
    hashing_ = true;
  }
  while (true) {
    int64_t end = 0;
    {
      absl::MutexLock lock(&mutex_);
      const auto next = waiting_.find(hashed_);
      if (next == waiting_.end()) {
        // Whoever comes now finds nobody hashing, and looks for itself.
        hashing_ = false;
        return absl::optional<std::string>();
      }
      end = next->second;
      waiting_.erase(next);
    }
    // On an error nobody takes over: `hashing_` stays.
    CAPSTAN_RETURN_IF_ERROR(read(hashed_, end - hashed_, [this](absl::string_view bytes) {
      hash_.Update(bytes);
      return absl::OkStatus();
    }));
    hashed_ = end;
    if (hashed_ == size_) return absl::make_optional(hash_.Finish());
  }
}

}  // namespace capstan::data_loader
