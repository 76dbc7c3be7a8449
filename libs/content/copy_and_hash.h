#ifndef CAPSTAN_LIBS_CONTENT_COPY_AND_HASH_H_
#define CAPSTAN_LIBS_CONTENT_COPY_AND_HASH_H_

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::content {

// Copies the regular files below `from` to the new folder `to`, hashing what is written, and makes
// the copy read-only and durable. The files belong to a Task that may still run: links and special
// files are refused, and a file that changes meanwhile is whatever was read, whose digest it has.
absl::StatusOr<capstan::dataloader::v1::Manifest> CopyAndHash(const SafeRoot& site,
                                                              const std::string& from,
                                                              const std::string& to,
                                                              const std::atomic<bool>& stop);

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_COPY_AND_HASH_H_
