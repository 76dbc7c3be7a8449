#include "tools/testenv/planned_server.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace capstan::testenv {
namespace {

TEST(PlannedServerTest, AProgramThatIsNoDataOfTheTestIsNamed) {
  const auto server = PlannedServer::Start({.server = "gcs", .programs = {"fake_gcs_server"}});
  ASSERT_EQ(server.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(server.status().message().find("//tools/testenv:fake_gcs_server_home"),
            std::string::npos)
      << server.status();
}

TEST(PlannedServerTest, AProgramThatEndsIsReportedWithWhatItSaid) {
  const auto server = PlannedServer::Start(
      {.server = "gcs", .arguments = {"--program=fake_gcs_server=/bin/false"}});
  ASSERT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(server.status().message().find("fake_gcs_server ended"), std::string::npos)
      << server.status();
}

}  // namespace
}  // namespace capstan::testenv
