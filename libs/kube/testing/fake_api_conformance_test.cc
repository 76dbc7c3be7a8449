// The fake passes what the real server has to: see api_conformance.h.
#include <memory>
#include <ostream>
#include <string>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/testing/api_conformance.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::kube::testing {

// GoogleTest's own way prints the bytes.
void PrintTo(const ConformanceCase& one, std::ostream* out) { *out << one.name; }

namespace {

class FakeApiConformance : public ::testing::TestWithParam<ConformanceCase> {};

TEST_P(FakeApiConformance, Simulated) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  FakeApiServerOptions options;
  options.converter = &BuiltinConverter();
  FakeApiServer server(options, &strand);
  const std::unique_ptr<Transport> transport = server.NewTransport();
  ConformanceTarget target;
  target.transport = transport.get();
  target.pump = [&, steps = 0]() mutable {
    // Bookmarks go on for ever.
    return ++steps < 10000 && strand.RunNext();
  };
  target.compact = [&] { server.CompactNow(); };
  target.restart = [&] { server.Restart(); };
  const auto failures = RunConformanceCase(GetParam(), target);
  EXPECT_TRUE(failures.empty()) << absl::StrJoin(failures, "\n");
}

INSTANTIATE_TEST_SUITE_P(All, FakeApiConformance, ::testing::ValuesIn(ConformanceCases()),
                         [](const auto& info) { return info.param.name; });

TEST(FakeApiConformanceWithAThread, AFewCases) {
  const SystemClock clock;
  FakeApiServer server(FakeApiServerOptions(), &clock);
  const std::unique_ptr<Transport> transport = server.NewTransport();
  ConformanceTarget target;
  target.transport = transport.get();
  target.compact = [&] { server.CompactNow(); };
  target.restart = [&] { server.Restart(); };
  int i = 0;
  for (const ConformanceCase& one : ConformanceCases()) {
    if (++i % 5 != 0 || one.name == "FutureVersionTimesOut") continue;
    const auto failures = RunConformanceCase(one, target);
    EXPECT_TRUE(failures.empty()) << one.name << "\n" << absl::StrJoin(failures, "\n");
  }
}

}  // namespace
}  // namespace capstan::kube::testing
