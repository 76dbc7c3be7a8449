// What a Task and its agent say to each other in JSON (docs/task_contract.md). Pure; requests come
// from strangers.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CHECKPOINT_TEXT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CHECKPOINT_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::node_agent {

struct CheckpointText {
  std::string directory;
  int64_t step = 0;
};

// `{"dir": "…", "step": <integer>}`; absent for anything else.
absl::optional<CheckpointText> ParseCheckpoint(absl::string_view body);

// One line with its end.
std::string CommittedText(int64_t step, absl::string_view digest);
// The same; `message` may be any bytes.
std::string ErrorText(int code, absl::string_view reason, absl::string_view message);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CHECKPOINT_TEXT_H_
