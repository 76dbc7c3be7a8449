#include "services/node_agent/shim/gpu_files.h"

#include <sys/sysmacros.h>

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "libs/gpu/driver_files.h"
#include "libs/status/status_macros.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;

// Those above are no GPU's: modeset and control.
constexpr int kMostMinor = 253;
constexpr unsigned int kControlMinor = 255;
constexpr int kMostCapability = (1 << 20) - 1;
constexpr char kRemedy[] = "load NVIDIA's driver and make them with `nvidia-modprobe -u -c=0`";

// By the first name that the kernel knows: releases of the driver differ.
absl::StatusOr<unsigned int> Major(absl::string_view proc_devices,
                                   std::initializer_list<absl::string_view> names) {
  for (const absl::string_view name : names) {
    const absl::optional<int> major = gpu::CharacterMajor(proc_devices, name);
    if (major.has_value()) return static_cast<unsigned int>(*major);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the Task's GPU can't be opened: /proc/devices knows no device files of ",
                   *names.begin(), "; ", kRemedy));
}

// Of the bits for reading and writing, those that `uid` has.
mode_t AccessOf(const struct stat& found, int64_t uid) {
  if (found.st_uid == static_cast<uid_t>(uid)) return (found.st_mode >> 6) & 6;
  if (found.st_gid == static_cast<gid_t>(uid)) return (found.st_mode >> 3) & 6;
  return found.st_mode & 6;
}

}  // namespace

absl::StatusOr<std::vector<GpuFile>> GpuFilesOf(const ShimSpec::Gpus& gpus,
                                                absl::string_view proc_devices) {
  std::vector<GpuFile> files;
  if (gpus.minors().empty() && gpus.capabilities().empty()) return files;
  CAPSTAN_ASSIGN_OR_RETURN(const unsigned int gpu_major,
                           Major(proc_devices, {"nvidia", "nvidia-frontend"}));
  CAPSTAN_ASSIGN_OR_RETURN(const unsigned int control_major,
                           Major(proc_devices, {"nvidiactl", "nvidia-frontend", "nvidia"}));
  CAPSTAN_ASSIGN_OR_RETURN(const unsigned int memory_major, Major(proc_devices, {"nvidia-uvm"}));
  files.push_back({"/dev/nvidiactl", control_major, kControlMinor});
  files.push_back({"/dev/nvidia-uvm", memory_major, 0});
  // Profilers alone use it.
  files.push_back({"/dev/nvidia-uvm-tools", memory_major, 1, /*optional=*/true});
  for (const int32_t minor : gpus.minors()) {
    if (minor < 0 || minor > kMostMinor) {
      return absl::InvalidArgumentError(absl::StrCat("no GPU has the minor number ", minor));
    }
    files.push_back(
        {absl::StrCat("/dev/nvidia", minor), gpu_major, static_cast<unsigned int>(minor)});
  }
  if (gpus.capabilities().empty()) return files;
  CAPSTAN_ASSIGN_OR_RETURN(const unsigned int capability_major,
                           Major(proc_devices, {"nvidia-caps"}));
  for (const int32_t minor : gpus.capabilities()) {
    if (minor < 0 || minor > kMostCapability) {
      return absl::InvalidArgumentError(absl::StrCat("no capability has the number ", minor));
    }
    files.push_back({absl::StrCat("/dev/nvidia-caps/nvidia-cap", minor), capability_major,
                     static_cast<unsigned int>(minor), /*optional=*/false, /*read_only=*/true});
  }
  return files;
}

absl::Status GpuFileIsMissing(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("the Task's GPU can't be opened: ", path, " is not there; ", kRemedy));
}

absl::Status CheckGpuFile(const GpuFile& file, const struct stat& found, int64_t uid) {
  if (!S_ISCHR(found.st_mode) || major(found.st_rdev) != file.major ||
      minor(found.st_rdev) != file.minor) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the Task's GPU can't be opened: ", file.path, " is not the character device ", file.major,
        ":", file.minor, " that /proc/devices names; remove it, and ", kRemedy));
  }
  const mode_t wanted = file.read_only ? 4 : 6;
  if (uid == 0 || (AccessOf(found, uid) & wanted) == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "the Task's GPU can't be opened: the mode %04o of %s shuts out the Job's uid %d; it should "
      "be %s (`nvidia-modprobe`, and NVreg_DeviceFileMode of the driver's kernel module)",
      found.st_mode & 07777, file.path, uid, file.read_only ? "0444" : "0666"));
}

}  // namespace capstan::node_agent
