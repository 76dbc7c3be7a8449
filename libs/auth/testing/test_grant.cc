#include "libs/auth/testing/test_grant.h"

#include "libs/auth/placement_grant.h"
#include "libs/rpc/x509.h"

namespace capstan::auth {

std::string TestGrant(const rpc::Svid& scheduler, const type::v1::Placement& placement) {
  return SignPlacements({placement}, rpc::PrivateKey::FromPem(scheduler.key_pem).value(),
                        scheduler.chain.front())
      .value()
      .front()
      .SerializeAsString();
}

}  // namespace capstan::auth
