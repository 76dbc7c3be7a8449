#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_TEXT_H_

#include <string>

#include "proto/capstan/scheduler/v1/node.pb.h"

namespace capstan::cli {

// `mig/h100-80gb=10/16,nvidia.com/h100=6`: devices, and of GPUs in MIG mode the memory slices that
// are in use and those that there are.
std::string AcceleratorsText(const scheduler::v1::Node& node);

// `old,team=vision`: taints by key.
std::string TaintsText(const scheduler::v1::Node& node);

// `0: H100-80GB, 4g.40gb at 0, 1g.10gb at 6`: what Tasks have of the GPU, and from which memory
// slice on.
std::string MigGpuText(const scheduler::v1::NodeMigGpu& gpu);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_TEXT_H_
