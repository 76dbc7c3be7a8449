#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_IDENTITY_FOLDER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_IDENTITY_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan::node_agent {

// One file of a Task's identity.
struct IdentityFile {
  std::string name;
  std::string bytes;
  // Readable by its owner alone, who is the Job's uid.
  bool secret = false;
};

// Replaces the files of a Task's identity as a set. `folder`, which must exist, holds each set in a
// folder of its own and a relative link kCurrentIdentity to the newest, which one rename replaces:
// a reader that has opened the link, or resolved it, reads one set. The set before stays until the
// next one comes, for readers that resolved the link just before. `name` tells sets apart and must
// not have been used before; files are 0444, secret ones 0400 of `unix_uid` (ours if it is 0).
//
// Not durable: a Task does not outlive its machine. After an error, and after a crash, the link is
// as it was or replaced, and what else is left is removed by the next call.
absl::Status ReplaceIdentity(const std::string& folder, const std::string& name,
                             const std::vector<IdentityFile>& files, int64_t unix_uid);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_IDENTITY_FOLDER_H_
