#include "integration/bench/process_use.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/safe_path/folder_names.h"

namespace capstan::bench {
namespace {

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

absl::Duration RunTime(pid_t pid) {
  absl::Duration total;
  const std::string tasks = absl::StrCat("/proc/", pid, "/task");
  for (const std::string& thread : FolderNames(tasks)) {
    // The first of three numbers, in nanoseconds.
    const std::vector<std::string> fields =
        absl::StrSplit(ReadFile(absl::StrCat(tasks, "/", thread, "/schedstat")), ' ');
    int64_t run = 0;
    if (absl::SimpleAtoi(fields.front(), &run)) total += absl::Nanoseconds(run);
  }
  return total;
}

double ResidentMegabytes(pid_t pid) {
  const std::vector<std::string> fields =
      absl::StrSplit(ReadFile(absl::StrCat("/proc/", pid, "/statm")), ' ');
  int64_t pages = 0;
  if (fields.size() > 1 && !absl::SimpleAtoi(fields[1], &pages)) pages = 0;
  return static_cast<double>(pages * sysconf(_SC_PAGESIZE)) / 1e6;
}

}  // namespace capstan::bench
