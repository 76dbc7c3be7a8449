// Ids of resources and requests.
#ifndef CAPSTAN_LIBS_RESOURCE_ID_H_
#define CAPSTAN_LIBS_RESOURCE_ID_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan::resource {

// What an id looks like, for messages.
inline constexpr char kIdRule[] =
    "1 to 63 lower-case letters, digits and '-', beginning with a letter, not ending in '-'";

// `^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`.
bool IsValidId(absl::string_view id);

// A UUID of version 4 in lower case.
bool IsValidUuid4(absl::string_view uuid);

// OK for an empty id (it is optional, AIP-155) and for a UUID4; else INVALID_ARGUMENT with a
// violation of the field `request_id`.
absl::Status ValidateRequestId(absl::string_view request_id);

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_ID_H_
