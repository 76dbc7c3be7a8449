// Where a Task's files lie on a Node, and what they are called.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_FOLDER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::node_agent {

// `<job uid>.<generation>.<group>-<index>`: the name of a Task's cgroup. A key whose words could
// not be parsed back, or would lead out of a folder, is refused: INVALID_ARGUMENT, reason
// INVALID_TASK_KEY.
absl::StatusOr<std::string> TaskLeaf(const capstan::type::v1::TaskKey& key);
absl::optional<capstan::type::v1::TaskKey> ParseTaskLeaf(absl::string_view leaf);

// `<tasks>/<job uid>/<generation>/<group>-<index>`.
std::string TaskFolder(const std::string& tasks, const capstan::type::v1::TaskKey& key);

// Makes the folder and, in it, `output/`, `work/` and `metrics/` (the Task's own), `socket/` and
// `identity/` (the platform's, readable for the Task), `log/` and `root/` (the platform's alone).
// Idempotent. Folders are given to `unix_uid` if that is not 0.
absl::Status MakeTaskFolder(const std::string& tasks, const capstan::type::v1::TaskKey& key,
                            int64_t unix_uid);

// Every Task that has a folder, sorted.
std::vector<capstan::type::v1::TaskKey> ListTaskFolders(const std::string& tasks);

// Takes the folder out of the way, below `trash`, and removes the folders above it that are empty
// then. OK if absent.
absl::Status MoveToTrash(const std::string& tasks, const std::string& trash,
                         const capstan::type::v1::TaskKey& key);

// Removes everything below `trash`, whatever a Task has made of it: folders as deep as it likes,
// links, modes. OK if absent. Takes as long as there are files.
absl::Status EmptyTrash(const std::string& trash);

// The shim's status; absent before the shim has written one.
absl::optional<capstan::nodeagent::v1::ShimStatus> ReadShimStatus(const std::string& folder);

// True while a shim holds the folder's lock.
bool IsShimLocked(const std::string& folder);

// True while a shim lives that has not recorded its end, so that lines may still come from it:
// of a Task that was killed too, whose last words it may not have read yet.
bool MayShimWrite(const std::string& folder);

// SIGKILL to the process that the shim's status names, if it still is that one.
void KillShim(const std::string& folder);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_FOLDER_H_
