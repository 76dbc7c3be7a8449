// Update masks (AIP-134, AIP-161).
#ifndef CAPSTAN_LIBS_RESOURCE_FIELD_MASK_H_
#define CAPSTAN_LIBS_RESOURCE_FIELD_MASK_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/message.h"

namespace capstan::resource {

// Copies from `source` to `target` the fields that `mask` names:
// - no paths: every field that is set in `source`;
// - the one path `*`: all fields, so that those not set in `source` are cleared;
// - else each path, `a.b`, whole; one not set in `source` is cleared.
// Paths in `output_only`, and below one, are passed over. A path that does not exist, or that goes
// through a repeated field or a map, is INVALID_ARGUMENT with a violation of `update_mask`, and
// then `target` is unchanged. The messages must be of the same type.
absl::Status ApplyFieldMask(const google::protobuf::FieldMask& mask,
                            const google::protobuf::Message& source,
                            const std::set<std::string>& output_only,
                            google::protobuf::Message* target);

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_FIELD_MASK_H_
