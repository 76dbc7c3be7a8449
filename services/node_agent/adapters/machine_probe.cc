#include "services/node_agent/adapters/machine_probe.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/safe_path/safe_path.h"
#include "libs/time/clock.h"
#include "services/node_agent/adapters/found_gpus.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::NodeObservation;

// Disk figures are rounded, so that a Node at rest reports nothing.
constexpr int64_t kDiskStep = int64_t{64} << 20;

int64_t MemoryBytes() {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  // In a container the own group's limit is what there is.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    int64_t limit = 0;
    if (file >> limit && limit > 0 && limit < machine) return limit;
  }
  return machine;
}

int64_t CpuMillis() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return int64_t{CPU_COUNT(&set)} * 1000;
  return int64_t{sysconf(_SC_NPROCESSORS_ONLN)} * 1000;
}

std::string Preflight(const std::string& data_folder, Now now) {
  const absl::Status written = WriteFileAtomically(data_folder + "/preflight", "ok\n", 0600);
  if (!written.ok()) return absl::StrCat("the data folder: ", written.message());
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!fd.valid() ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::StrCat("loopback: ", ErrnoStatus(errno, "bind", "127.0.0.1").message());
  }
  // 2020: certificates cannot be checked by a clock that was never set.
  if (now.wall < absl::FromUnixSeconds(1'577'836'800) || now.boot <= BootTime()) {
    return "the clocks were never set";
  }
  return "";
}

NodeObservation Look(const MachineProbeConfig& config, const FoundGpus& found,
                     const std::string& boot_id, Now now) {
  NodeObservation node;
  node.set_node(config.node);
  node.set_host(config.host);
  node.set_boot_id(boot_id);
  auto* allocatable = node.mutable_allocatable();
  allocatable->set_cpu_millis(Allocatable(CpuMillis(), config.reserved_cpu_millis));
  allocatable->set_memory_bytes(Allocatable(MemoryBytes(), config.reserved_memory_bytes));
  for (const auto& [name, count] : config.accelerators) {
    (*allocatable->mutable_accelerators())[name] = count;
  }
  for (const auto& [name, count] : found.accelerators) {
    (*allocatable->mutable_accelerators())[name] += count;
  }
  for (const auto& gpu : config.mig_gpus) *node.add_mig_gpus() = gpu;
  for (const auto& gpu : found.mig_gpus) *node.add_mig_gpus() = gpu;
  for (const auto& [name, value] : config.labels) (*node.mutable_labels())[name] = value;
  for (const auto& taint : config.taints) *node.add_taints() = taint;
  for (const auto limitation : config.limitations) node.add_limitations(limitation);
  struct statvfs disk;
  if (statvfs(config.data_folder.c_str(), &disk) == 0) {
    const int64_t block = static_cast<int64_t>(disk.f_frsize);
    const int64_t total = static_cast<int64_t>(disk.f_blocks) * block;
    const int64_t free = static_cast<int64_t>(disk.f_bavail) * block;
    node.set_disk_total_bytes(total);
    node.set_disk_free_bytes(free / kDiskStep * kDiskStep);
    if (free < total / 100 * config.min_free_disk_percent) {
      node.add_limitations(NodeObservation::LIMITATION_DISK_FULL);
    }
  }
  node.set_preflight_message(Preflight(config.data_folder, now));
  if (!node.preflight_message().empty()) {
    node.add_limitations(NodeObservation::LIMITATION_PREFLIGHT_FAILED);
  }
  return node;
}

class MachineProbe final : public NodeProbe {
 public:
  MachineProbe(MachineProbeConfig config, Strand* strand, Strand* files, GpuWatch* gpus)
      : config_(std::move(config)), strand_(strand), files_(files), gpus_(gpus) {}

  void Observe(absl::AnyInvocable<void(NodeObservation)> done) override {
    if (gpus_ == nullptr) return ObserveWith(FoundGpus(), std::move(done));
    gpus_->Look([this, alive = std::weak_ptr<char>(alive_),
                 done = std::move(done)](const FoundGpus& found) mutable {
      if (!alive.expired()) ObserveWith(found, std::move(done));
    });
  }

 private:
  void ObserveWith(const FoundGpus& found, absl::AnyInvocable<void(NodeObservation)> done) {
    files_->Post([strand = strand_, config = config_, found, done = std::move(done)]() mutable {
      NodeObservation seen = Look(config, found, ReadBootId().value_or(""), strand->clock().Read());
      strand->Post(
          [done = std::move(done), seen = std::move(seen)]() mutable { done(std::move(seen)); });
    });
  }

  const MachineProbeConfig config_;
  Strand* const strand_;
  Strand* const files_;
  GpuWatch* const gpus_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace

std::unique_ptr<NodeProbe> MakeMachineProbe(MachineProbeConfig config, Strand* strand,
                                            Strand* files, GpuWatch* gpus) {
  return std::make_unique<MachineProbe>(std::move(config), strand, files, gpus);
}

absl::StatusOr<std::string> ReadBootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id && !id.empty()) return id;
  return absl::UnavailableError("cannot read the kernel's boot_id");
}

int64_t Allocatable(int64_t total, int64_t reserved) {
  return std::max(total - reserved, total / 2);
}

}  // namespace capstan::node_agent
