#ifndef CAPSTAN_LIBS_LABEL_TAINTS_H_
#define CAPSTAN_LIBS_LABEL_TAINTS_H_

#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "libs/status/error.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::label {

// Of a Node.
inline constexpr int kMaxTaints = 32;

// Adds what is wrong with the taints of one Node, below `field`.
void CheckTaints(absl::string_view field,
                 const google::protobuf::RepeatedPtrField<capstan::type::v1::Taint>& taints,
                 status::FieldErrors* errors);

}  // namespace capstan::label

#endif  // CAPSTAN_LIBS_LABEL_TAINTS_H_
