#include "libs/trace/tracing.h"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/metrics/registry.h"
#include "libs/status/error.h"
#include "libs/time/simulated_clock.h"
#include "libs/trace/tracer.h"
#include "proto/capstan/config/v1/observation.pb.h"

namespace capstan::trace {
namespace {

class TracingTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Tracing>> Open(const config::v1::Traces& config) {
    return Tracing::Open(config, {.clock = &clock_, .metrics = &metrics_, .seed = 1});
  }
  // A receiver on another machine, with a file of authorities that says this.
  config::v1::Traces Remote(const std::string& authorities) const {
    const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/ca.pem";
    std::ofstream file(path, std::ios::trunc);
    file << authorities;
    config::v1::Traces config;
    config.set_otlp_address("collector.example:4317");
    config.set_ca_file(path);
    return config;
  }

  SimulatedClock clock_;
  metrics::Registry metrics_{"test"};
};

// Without authorities there would be no TLS.
TEST_F(TracingTest, AFileOfAuthoritiesThatIsEmptyIsRefused) {
  EXPECT_EQ(status::Reason(Open(Remote("")).status()), "CA_FILE_UNREADABLE");
}

TEST_F(TracingTest, AFileOfAuthoritiesThatIsGoneIsRefused) {
  config::v1::Traces config = Remote("");
  config.set_ca_file(config.ca_file() + ".gone");
  EXPECT_EQ(status::Reason(Open(config).status()), "CA_FILE_UNREADABLE");
  config.set_ca_file(std::getenv("TEST_TMPDIR"));
  EXPECT_EQ(status::Reason(Open(config).status()), "CA_FILE_UNREADABLE") << "a folder";
}

TEST_F(TracingTest, WithoutAReceiverNothingIsRecorded) {
  const auto tracing = Open({});
  ASSERT_TRUE(tracing.ok()) << tracing.status();
  EXPECT_FALSE((*tracing)->tracer()->records());
  (*tracing)->Close(absl::InfiniteDuration());
}

}  // namespace
}  // namespace capstan::trace
