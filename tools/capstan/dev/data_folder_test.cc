#include "tools/capstan/dev/data_folder.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::dev {
namespace {

TEST(DataFolderTest, OneOwnerAtATime) {
  const TemporaryFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/a");
  {
    const auto first = DataFolder::Own(path);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(status::Reason(DataFolder::Own(path).status()), "PLATFORM_RUNNING");
  }
  EXPECT_TRUE(DataFolder::Own(path).ok());
}

TEST(DataFolderTest, OthersEnterButSeeNothing) {
  const TemporaryFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/b");
  ASSERT_TRUE(DataFolder::Own(path).ok());
  ASSERT_TRUE(MakePartFolders(path, {}).ok());
  const auto mode = [&](const std::string& below) {
    struct stat info = {};
    stat(absl::StrCat(path, below).c_str(), &info);
    return info.st_mode & 0777;
  };
  EXPECT_EQ(mode(""), 0711u);
  EXPECT_EQ(mode("/credentials"), 0700u);
  EXPECT_EQ(mode("/node_agent"), 0711u);
  EXPECT_EQ(mode("/log"), 0700u);
  EXPECT_EQ(mode("/run"), 0755u);
}

TEST(DataFolderTest, RefusesPathsThatCannotWork) {
  EXPECT_EQ(status::Reason(DataFolder::Own("relative").status()), "DATA_DIR_NOT_ABSOLUTE");
  EXPECT_EQ(status::Reason(DataFolder::Own("/tmp/" + std::string(100, 'x')).status()),
            "DATA_DIR_TOO_LONG");
}

TEST(DataFolderTest, PortsAreChosenOnceAndKept) {
  const TemporaryFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/c");
  ASSERT_TRUE(DataFolder::Own(path).ok());
  const auto first = KeepEndpoints(path, {}, /*may_replace=*/true);
  ASSERT_TRUE(first.ok()) << first.status();
  std::set<std::string> addresses = {first->join_address()};
  size_t count = 1;
  for (const auto& [name, part] : first->parts()) {
    for (const std::string& address : {part.address(), part.metrics_address()}) {
      if (address.empty()) continue;
      addresses.insert(address);
      ++count;
    }
  }
  EXPECT_EQ(addresses.size(), count) << "no port is given twice";
  EXPECT_EQ(first->parts().at("node_agent").address(), "") << "nothing dials an agent";
  const auto again = KeepEndpoints(path, {}, /*may_replace=*/true);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->SerializeAsString().size(), first->SerializeAsString().size());
  EXPECT_EQ(again->join_address(), first->join_address());
  EXPECT_EQ(cli::ReadEndpoints(path)->parts().at("scheduler").address(),
            first->parts().at("scheduler").address());
}

TEST(DataFolderTest, ClientsAreToldWhereSpansGo) {
  const TemporaryFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/d");
  ASSERT_TRUE(DataFolder::Own(path).ok());
  cli::v1::PlatformConfig config;
  config.mutable_monitoring()->mutable_traces()->set_otlp_address("127.0.0.1:4317");
  ASSERT_TRUE(KeepEndpoints(path, config, /*may_replace=*/true).ok());
  EXPECT_EQ(cli::ReadEndpoints(path)->traces().otlp_address(), "127.0.0.1:4317");
  ASSERT_TRUE(KeepEndpoints(path, {}, /*may_replace=*/true).ok());
  EXPECT_FALSE(cli::ReadEndpoints(path)->has_traces());
}

TEST(DataFolderTest, ReplicasComeAndGoWithTheConfiguration) {
  const TemporaryFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/d");
  ASSERT_TRUE(DataFolder::Own(path).ok());
  cli::v1::PlatformConfig config;
  config.set_schedulers(2);
  config.set_no_local_node(true);
  const auto two = KeepEndpoints(path, config, /*may_replace=*/true);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_NE(two->parts().at("scheduler").address(), two->parts().at("scheduler-2").address());
  EXPECT_EQ(two->parts().count("node_agent"), 0u);
  const auto one = KeepEndpoints(path, {}, /*may_replace=*/true);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->parts().count("scheduler-2"), 0u);
  EXPECT_EQ(one->parts().count("node_agent"), 1u);
  EXPECT_EQ(one->parts().at("scheduler").address(), two->parts().at("scheduler").address());
}

}  // namespace
}  // namespace capstan::dev
