#include "libs/cgroup/usage.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::cgroup {
namespace {

constexpr size_t kFileLimit = 16 << 20;
// A Task can make groups below its own where it may write there: the walk is bounded.
constexpr int kMostGroups = 1000;

absl::optional<std::string> Read(const std::string& folder, const char* file) {
  if (folder.empty()) return absl::nullopt;
  const std::string path = absl::StrCat(folder, "/", file);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return absl::nullopt;
  absl::StatusOr<std::string> text = ReadAll(fd.get(), kFileLimit, path);
  if (!text.ok()) return absl::nullopt;
  return *std::move(text);
}

absl::optional<int64_t> Number(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) return absl::nullopt;
  return value;
}

absl::optional<int64_t> ReadNumber(const std::string& folder, const char* file) {
  const absl::optional<std::string> text = Read(folder, file);
  return text.has_value() ? Number(*text) : absl::nullopt;
}

// The value of a line `name value`.
absl::optional<int64_t> ReadNamed(const std::string& folder, const char* file,
                                  absl::string_view name) {
  const absl::optional<std::string> text = Read(folder, file);
  if (!text.has_value()) return absl::nullopt;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (pair.first == name) return Number(pair.second);
  }
  return absl::nullopt;
}

absl::optional<int64_t> WorkingSet(absl::optional<int64_t> all, absl::optional<int64_t> inactive) {
  if (!all.has_value()) return absl::nullopt;
  // The two files are not read at one moment.
  return std::max<int64_t>(*all - inactive.value_or(0), 0);
}

void AppendPids(const std::string& text, std::vector<pid_t>* pids) {
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(line, &pid)) pids->push_back(pid);
  }
}

// In the group and below it; absent if the group is gone.
absl::optional<std::vector<pid_t>> ProcessesIn(const std::string& folder) {
  const absl::optional<std::string> own = Read(folder, "cgroup.procs");
  if (!own.has_value()) return absl::nullopt;
  std::vector<pid_t> pids;
  AppendPids(*own, &pids);
  std::error_code gone;
  int groups = 0;
  for (auto it = std::filesystem::recursive_directory_iterator(folder, gone);
       !gone && it != std::filesystem::recursive_directory_iterator() && groups < kMostGroups;
       it.increment(gone)) {
    std::error_code unknown;
    if (!it->is_directory(unknown)) continue;
    ++groups;
    const absl::optional<std::string> below = Read(it->path().string(), "cgroup.procs");
    if (below.has_value()) AppendPids(*below, &pids);
  }
  return pids;
}

const std::string& ProcessFolder(const Paths& paths) {
  return paths.v2.empty() ? paths.v1_freezer : paths.v2;
}

// Neither is negative.
int64_t SaturatingSum(int64_t a, int64_t b) {
  return a > std::numeric_limits<int64_t>::max() - b ? std::numeric_limits<int64_t>::max() : a + b;
}

// Lines such as `254:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`, one a device. A group
// that has done nothing has none.
void ReadIo(const std::string& folder, Usage* usage) {
  const absl::optional<std::string> text = Read(folder, "io.stat");
  if (!text.has_value()) return;
  int64_t read = 0;
  int64_t written = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    for (absl::string_view word : absl::StrSplit(line, ' ')) {
      if (absl::ConsumePrefix(&word, "rbytes="))
        read = SaturatingSum(read, Number(word).value_or(0));
      if (absl::ConsumePrefix(&word, "wbytes="))
        written = SaturatingSum(written, Number(word).value_or(0));
    }
  }
  usage->io_read_bytes = read;
  usage->io_write_bytes = written;
}

}  // namespace

Usage ReadUsage(const Paths& paths) {
  Usage usage;
  if (const auto us = ReadNamed(paths.v2, "cpu.stat", "usage_usec")) {
    usage.cpu_time = absl::Microseconds(*us);
  } else if (const auto ns = ReadNumber(paths.v1_cpu, "cpuacct.usage")) {
    usage.cpu_time = absl::Nanoseconds(*ns);
  }
  usage.memory_bytes = WorkingSet(ReadNumber(paths.v2, "memory.current"),
                                  ReadNamed(paths.v2, "memory.stat", "inactive_file"));
  usage.memory_peak_bytes = ReadNumber(paths.v2, "memory.peak");
  if (!usage.memory_bytes.has_value()) {
    usage.memory_bytes =
        WorkingSet(ReadNumber(paths.v1_memory, "memory.usage_in_bytes"),
                   ReadNamed(paths.v1_memory, "memory.stat", "total_inactive_file"));
    usage.memory_peak_bytes = ReadNumber(paths.v1_memory, "memory.max_usage_in_bytes");
  }
  if (const auto pids = ProcessesIn(ProcessFolder(paths))) {
    usage.processes = static_cast<int64_t>(pids->size());
  }
  ReadIo(paths.v2, &usage);
  return usage;
}

std::vector<pid_t> ReadProcesses(const Paths& paths) {
  return ProcessesIn(ProcessFolder(paths)).value_or(std::vector<pid_t>());
}

}  // namespace capstan::cgroup
