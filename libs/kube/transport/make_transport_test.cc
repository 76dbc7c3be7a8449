#include "libs/kube/transport/make_transport.h"

#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/h2_transport.h"
#include "libs/kube/transport/testing/transport_fixture.h"
#include "libs/kube/transport/transport_conformance.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

// The first server turns out to have no HTTP/2, so that libcurl takes over; to the second it goes
// at once.
using Harnesses = testing::Types<ServerHarness<&MakeTransport, Protocol::kHttp1>,
                                 ServerHarness<&MakeTransport, Protocol::kPlain>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Made, TransportConformance, Harnesses);

TEST(MakeTransportTest, PicksByWhatIsAskedFor) {
  const SystemClock clock;
  const TransportOptions good = ClientOptions(Protocol::kHttp2, 1);
  EXPECT_TRUE(MakeH2Transport(good, nullptr, &clock).ok());
  std::vector<TransportOptions> others(4, good);
  others[0].server = "http://127.0.0.1:1";
  others[0].allow_plaintext = true;
  others[1].proxy = "http://127.0.0.1:2";
  others[2].gzip = true;
  others[3].ca_pem = "no certificate";
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(MakeH2Transport(others[i], nullptr, &clock).status().code(),
              absl::StatusCode::kInvalidArgument)
        << i;
    EXPECT_EQ(MakeTransport(others[i], nullptr, &clock).ok(), i < 3) << i;
  }
  TransportOptions bypassed = others[1];
  bypassed.no_proxy = "127.0.0.1";
  EXPECT_TRUE(MakeH2Transport(bypassed, nullptr, &clock).ok());
}

}  // namespace
}  // namespace capstan::kube
