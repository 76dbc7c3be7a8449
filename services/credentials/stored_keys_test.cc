#include "libs/store/testing/stored_keys.h"

#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "services/credentials/core/store_key.h"
#include "services/credentials/stored_records.h"

namespace capstan::credentials {
namespace {

TEST(StoredKeysTest, AreWhereReleasedVersionsHaveThem) {
  store::ExpectStoredKeys(
      golden::Format("services/credentials", "keys", "txt"), StoredRecords(),
      {kTurnKey, kTrustDomainKey, kPolicyHeadKey, kAuditHeadKey, AuditKey(27),
       ProjectKey("projects/p"), RoleBindingKey("roleBindings/b"),
       RoleBindingKey("projects/p/roleBindings/b"), DeniedIdKey("spiffe://t/person/u"),
       DeniedSerialKey("0a1b"), JoinTokenKey("id"), IssuedKey("0a1b"), PersonKey("u"),
       kJwtKeysHeadKey, JwtKeyKey("thumbprint"), RequestKey("spiffe://t/person/u", "r1")});
}

}  // namespace
}  // namespace capstan::credentials
