// What a shim of one version writes an agent of another ships.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/shim/log_reader.h"
#include "services/node_agent/shim/log_spill.h"

namespace capstan::node_agent {
namespace {

TEST(StoredLogTest, ReleasedSpillsAreRead) {
  const golden::Format format("services/node_agent/shim", "log", "folder");
  const std::vector<std::string> lines = {"one", "to stderr", "", "unfinished"};
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    golden::RestoreFolder(version.bytes, folder.path());
    const auto batch = ReadLog(folder.path(), LogCursor(), 1 << 20);
    ASSERT_TRUE(batch.ok()) << batch.status() << golden::kMustRead;
    ASSERT_EQ(batch->records.size(), lines.size()) << golden::kMustRead;
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(batch->records[i].line(), lines[i]);
      EXPECT_EQ(batch->records[i].sequence(), static_cast<int64_t>(i) + 1);
      EXPECT_EQ(batch->records[i].fd(), i == 1 ? 2 : 1);
    }
  }
  const TemporaryFolder folder;
  SimulatedClock clock;
  LogSpill spill(folder.path(), 1 << 20, &clock);
  spill.Write(1, "one\n");
  spill.Write(2, "to stderr\n");
  spill.Write(1, "\nunfinished");
  spill.Flush();
  format.ExpectWritten(golden::DumpFolder(folder.path()));
}

}  // namespace
}  // namespace capstan::node_agent
