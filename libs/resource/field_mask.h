// Update masks (AIP-134, AIP-161).
#ifndef CAPSTAN_LIBS_RESOURCE_FIELD_MASK_H_
#define CAPSTAN_LIBS_RESOURCE_FIELD_MASK_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/message.h"

namespace capstan::resource {

inline constexpr int kMaxMaskPaths = 100;

// INVALID_ARGUMENT with a violation of `update_mask` for more paths than that, and for a path that
// does not exist in messages of this type, or goes through a repeated field or a map.
absl::Status CheckFieldMask(const google::protobuf::FieldMask& mask,
                            const google::protobuf::Descriptor* descriptor);

// Copies from `source` to `target` the fields that `mask` names:
// - no paths: every field that is set in `source`;
// - the one path `*`: all fields, so that those not set in `source` are cleared;
// - else each path, `a.b`, whole; one not set in `source` is cleared.
// Paths in `output_only`, and below one, are passed over. What CheckFieldMask refuses is
// refused, and then `target` is unchanged. The messages must be of the same type.
absl::Status ApplyFieldMask(const google::protobuf::FieldMask& mask,
                            const google::protobuf::Message& source,
                            const std::set<std::string>& output_only,
                            google::protobuf::Message* target);

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_FIELD_MASK_H_
