// Entity tags (RFC 7232, AIP-154).
#ifndef CAPSTAN_LIBS_RESOURCE_ETAG_H_
#define CAPSTAN_LIBS_RESOURCE_ETAG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan::resource {

// A strong tag, with its quotes, of the store's mod_revision of a record: `"r42"`.
std::string MakeEtag(int64_t revision);

// A strong tag of a record's content, for records without a revision of their own.
std::string MakeEtag(absl::string_view content);

// OK if `given` is empty (no condition) or equal to `current` by strong comparison. A tag that is
// not in RFC 7232's form is INVALID_ARGUMENT; one that differs is ABORTED with reason
// ETAG_MISMATCH: read the resource again and redo the change.
absl::Status CheckEtag(absl::string_view given, absl::string_view current);

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_ETAG_H_
