// What a supervisor leaves in a data folder for the next one, perhaps of another version: what runs
// (`dev down --keep-tasks`), who the parts are, and where.
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "tools/capstan/dev/data_folder.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/process.h"

namespace capstan::dev {
namespace {

constexpr char kPackage[] = "tools/capstan/dev";

TEST(StoredFormatTest, ThingsLieWhereReleasedVersionsHaveThem) {
  std::string paths;
  for (const PartSpec& part : PossibleParts()) {
    // One replica stands for all.
    if (absl::StrContains(part.name, "-") && !absl::EndsWith(part.name, "-2")) continue;
    absl::StrAppend(&paths, part.name, " ", part.service, " ", part.identity_path, "\n  ",
                    PartConfigFile("", part.name), "\n  ", IdentityFolder("", part.name), "\n  ",
                    PidFile("", part.name), "\n");
  }
  absl::StrAppend(&paths, LogFolder(""), "\n", PersonSocket(""), "\n", UnfinishedRestoreFile(""),
                  "\n", CgroupName("/a/data/folder"), "\n");
  golden::Format(kPackage, "data_folder", "txt").ExpectWritten(paths);
}

TEST(StoredFormatTest, ReleasedPidFilesAreRead) {
  const golden::Format format(kPackage, "pid", "txt");
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/part.pid";
  ASSERT_TRUE(WritePidFile(path, {.pid = 12, .start_ticks = 3456}).ok());
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  format.ExpectWritten(ReadAll(fd.get(), 100, path).value());
  // Of a process that lives.
  const auto self = FindProcess(getpid());
  ASSERT_TRUE(self.has_value());
  ASSERT_TRUE(
      WriteFileAtomically(path, absl::StrCat(self->pid, " ", self->start_ticks, "\n"), 0644).ok());
  const auto read = ReadPidFile(path);
  ASSERT_TRUE(read.has_value()) << golden::kMustRead;
  EXPECT_EQ(read->pid, self->pid);
}

}  // namespace
}  // namespace capstan::dev
