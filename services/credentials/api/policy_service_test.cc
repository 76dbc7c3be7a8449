#include "services/credentials/api/policy_service.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::credentials {
namespace {

absl::StatusOr<DenyIdentity> Parse(const std::string& id, const std::string& serial,
                                   const std::string& reason = "lost") {
  v1::DenyIdentityRequest request;
  request.set_spiffe_id(id);
  request.set_serial(serial);
  request.set_reason(reason);
  return ParseDenial(request, "x.local");
}

TEST(ParseDenialTest, MakesFullIdsAndShortSerials) {
  EXPECT_EQ(Parse("spiffe://x.local/svc/scheduler", "")->spiffe_id,
            "spiffe://x.local/svc/scheduler");
  EXPECT_EQ(Parse("/node/local/node-0", "")->spiffe_id, "spiffe://x.local/node/local/node-0");
  EXPECT_EQ(Parse("/node/local/", "")->spiffe_id, "spiffe://x.local/node/local/");
  EXPECT_EQ(Parse("spiffe://x.local/project/p/", "")->spiffe_id, "spiffe://x.local/project/p/");
  EXPECT_EQ(Parse("", "00ab12")->serial, "ab12");
}

TEST(ParseDenialTest, RefusesWhatWouldDenyNothingOrEverything) {
  for (const char* id :
       {"/", "//", "spiffe://x.local/", "spiffe://x.local", "spiffe://y.local/svc/a", "/svc",
        "/svc/A", "/svc/../", "/svc//", "/project/p/sa/a", "svc/a"}) {
    EXPECT_EQ(status::Reason(Parse(id, "").status()), "INVALID_FIELD") << id;
  }
  for (const char* serial :
       {"0", "xyz", "AB", "0x1", "12345678901234567890123456789012345678901"}) {
    EXPECT_EQ(status::Reason(Parse("", serial).status()), "INVALID_FIELD") << serial;
  }
  EXPECT_FALSE(Parse("", "").ok());
  EXPECT_FALSE(Parse("/svc/a", "ab").ok());
  EXPECT_FALSE(Parse("/svc/a", "", "").ok());
  EXPECT_FALSE(Parse("/svc/" + std::string(300, 'a') + "/", "").ok());
}

}  // namespace
}  // namespace capstan::credentials
