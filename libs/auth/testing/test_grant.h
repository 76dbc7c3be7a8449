#ifndef CAPSTAN_LIBS_AUTH_TESTING_TEST_GRANT_H_
#define CAPSTAN_LIBS_AUTH_TESTING_TEST_GRANT_H_

#include <string>

#include "libs/rpc/identity.h"
#include "proto/capstan/type/v1/placement_grant.pb.h"

namespace capstan::auth {

// The grant, serialised, that the scheduler whose SVID this is would give. The Placement says when.
// Dies on failure.
std::string TestGrant(const rpc::Svid& scheduler, const type::v1::Placement& placement);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_TESTING_TEST_GRANT_H_
