#ifndef CAPSTAN_SERVICES_SCHEDULER_API_ASKED_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_ASKED_H_

#include <set>
#include <string>

#include "google/protobuf/field_mask.pb.h"
#include "libs/resource/field_mask.h"

namespace capstan::scheduler {

// What a client asks for of the thing that it sends: what `mask` names, which resource::
// CheckFieldMask has found good; all that is set without one. Not what only the service says of it,
// `output_only`, and no field that is in no contract: none of these was checked, so they are neither
// stored, where a later version may know them, nor recorded.
template <typename Thing>
Thing Asked(const Thing& sent, const std::set<std::string>& output_only,
            const google::protobuf::FieldMask& mask = {}) {
  Thing asked;
  resource::ApplyFieldMask(mask, sent, output_only, &asked).IgnoreError();
  asked.DiscardUnknownFields();
  return asked;
}

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_ASKED_H_
