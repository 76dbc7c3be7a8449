#ifndef CAPSTAN_SERVICES_NODE_AGENT_DECLARED_TAINTS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_DECLARED_TAINTS_H_

#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "libs/status/error.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::node_agent {

// What is wrong with taints of a configuration, below `field`. The scheduler drops taints that are
// malformed, and the Node would be open to all: here they are refused.
void CheckDeclaredTaints(absl::string_view field,
                         const google::protobuf::RepeatedPtrField<capstan::type::v1::Taint>& taints,
                         status::FieldErrors* errors);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_DECLARED_TAINTS_H_
