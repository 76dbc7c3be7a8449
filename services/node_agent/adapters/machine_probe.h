#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_MACHINE_PROBE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_MACHINE_PROBE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/strand/strand.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/adapters/gpu_watch.h"
#include "services/node_agent/ports/node_probe.h"

namespace capstan::node_agent {

struct MachineProbeConfig {
  std::string node;
  std::string host;
  std::string data_folder;
  std::map<std::string, std::string> labels;
  std::vector<capstan::type::v1::Taint> taints = {};
  // Devices by name, beside those that are found.
  std::map<std::string, int64_t> accelerators;
  // GPUs in MIG mode, likewise.
  std::vector<capstan::type::v1::MigGpu> mig_gpus = {};
  // Found at the agent's start: LIMITS_NOT_ENFORCED, UNFENCED, UNISOLATED.
  std::vector<capstan::type::v1::NodeObservation::Limitation> limitations;
  // What is kept for the platform. Of a small machine at most half is kept.
  int64_t reserved_cpu_millis = 500;
  int64_t reserved_memory_bytes = int64_t{2} << 30;
  // Below this share of free disk, in per cent, the Node is DISK_FULL.
  int min_free_disk_percent = 5;
};

// This machine. `files` runs what blocks. Preflight: the data folder can be written and synced, a
// loopback port can be bound, the clocks can be read. With `gpus` each look offers what that finds,
// waiting for it no longer than it lets one wait; null: no GPUs are looked for. It must outlive the
// probe.
std::unique_ptr<NodeProbe> MakeMachineProbe(MachineProbeConfig config, Strand* strand,
                                            Strand* files, GpuWatch* gpus = nullptr);

// boot_id of the kernel.
absl::StatusOr<std::string> ReadBootId();

// What is left of `total` less `reserved`, but at least half of it.
int64_t Allocatable(int64_t total, int64_t reserved);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_MACHINE_PROBE_H_
