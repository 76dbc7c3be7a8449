#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_FOLLOW_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_FOLLOW_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// Calls `on_node` with each Node of `parent` (`clusters/{c}` or `clusters/-`), and with each that
// changes, until it returns false. On the loop's strand.
absl::Status FollowNodes(CommandLoop* loop, Platform* platform, const std::string& parent,
                         std::function<bool(const scheduler::v1::Node&)> on_node,
                         std::function<void(const absl::Status&)> on_over);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_FOLLOW_H_
