#ifndef CAPSTAN_LIBS_PROCESS_SHARED_SECRET_H_
#define CAPSTAN_LIBS_PROCESS_SHARED_SECRET_H_

#include <string>

#include "absl/status/statusor.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::process {

// The 32 random bytes at `key`, the same for all who share the store: whoever comes first makes
// them. For what replicas must be able to verify of each other, such as page tokens. Blocks for the
// store; not to be called on `strand`, on which the store calls back.
absl::StatusOr<std::string> ShareSecret(store::Store* store, Strand* strand,
                                        const std::string& key);

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_SHARED_SECRET_H_
