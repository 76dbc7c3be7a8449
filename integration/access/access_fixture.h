#ifndef CAPSTAN_INTEGRATION_ACCESS_ACCESS_FIXTURE_H_
#define CAPSTAN_INTEGRATION_ACCESS_ACCESS_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "integration/access/method_catalog.h"
#include "integration/access/raw_call.h"
#include "integration/platform/test_platform.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/x509.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "services/credentials/testing/stored_authority.h"
#include "tools/testenv/loopback_port.h"

namespace capstan::integration {

// For a call's answer.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

// People of this machine, nobody's on a Debian: a viewer of the Project `default`, and a researcher
// of another.
inline constexpr char kViewer[] = "4001";
inline constexpr char kStranger[] = "4002";

// One platform for all tests of a suite, on which the Job `serve` runs, with identities of any kind
// signed by its own authority.
class AccessFixture : public ::testing::Test {
 protected:
  // A server, the methods it serves, and where its counters are.
  struct Part {
    std::string name;
    std::string address;
    std::string metrics;
    std::vector<Method> methods;
  };

  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  // Those of the platform.
  static std::vector<Part>& parts() {
    static auto& all = *new std::vector<Part>();
    return all;
  }
  static void FindParts();
  static std::string Uri(absl::string_view path) {
    return absl::StrCat("spiffe://", authority_->trust_domain(), path);
  }
  static std::shared_ptr<rpc::Identity> Keep(rpc::Svid svid);
  static absl::Time Now() { return clock_.Read().wall; }
  // A good one.
  static std::shared_ptr<rpc::Identity> Identity(absl::string_view path) {
    return Keep(authority_->Issue(Uri(path), Now() - absl::Hours(1), Now() + absl::Hours(1)));
  }
  static std::shared_ptr<rpc::Identity> Person(absl::string_view uid);
  static std::string PathOf(absl::string_view part) {
    return part == "executor" ? "/executor/local" : absl::StrCat("/svc/", part);
  }
  static std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
      const std::shared_ptr<rpc::Identity>& identity, absl::string_view part) {
    return rpc::MutualTlsChannelCredentials(identity, &clock_, Uri(PathOf(part)));
  }
  static const Part& PartNamed(absl::string_view name);
  static const Method& MethodAt(absl::string_view path);
  // On a connection of its own.
  static grpc::Status CallAs(const std::shared_ptr<rpc::Identity>& identity, absl::string_view part,
                             absl::string_view path, absl::string_view resource) {
    return RawCall(DialAlone(PartNamed(part).address, CredentialsOf(identity, part)),
                   std::string(path), *RequestOf(MethodAt(path), resource), kPatience);
  }

  // A counter's value on the part's page; -1 if it has none.
  static int64_t Counter(const Part& part, absl::string_view series);
  static std::string AccessLogOf(const Part& part);
  static bool IsRefusal(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
           status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
  }

  static SystemClock clock_;
  static TestPlatform* platform_;
  static credentials::StoredAuthority* authority_;
  // Where credentials serves OpenID's documents.
  static std::string openid_address() { return absl::StrCat("127.0.0.1:", openid_port_->number()); }
  static testenv::LoopbackPort* openid_port_;
  static cli::v1::Endpoints* endpoints_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_ACCESS_ACCESS_FIXTURE_H_
