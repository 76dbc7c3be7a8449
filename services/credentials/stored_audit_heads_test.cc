// Signed heads lie beside what the replicas mirror. Another version looks for them there: if it did
// not find them, a chain that was cut meanwhile would pass for a new one.
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/digest/sha256.h"
#include "libs/rpc/identity.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/store/store.h"
#include "proto/capstan/credentials/v1/audit_head.grpc.pb.h"
#include "services/credentials/testing/server_harness.h"

namespace capstan::credentials {
namespace {

TEST(StoredAuditHeadsTest, LieWhereReleasedVersionsHaveThem) {
  const TemporaryFolder folder;
  ServerHarness harness(folder.path());
  ASSERT_TRUE(harness.Start().ok());
  const auto admin = harness.Person().value();
  const auto token = harness.MakeToken(admin, "/svc/scheduler");
  ASSERT_TRUE(token.ok()) << token.status();
  const auto scheduler = harness.JoinAs(*token).value();
  v1::ReportAuditHeadRequest request;
  request.set_chain("scheduler");
  request.set_first_hash(std::string(32, '\x5a'));
  request.set_sequence(1);
  request.set_hash(std::string(32, '\x5a'));
  const auto signing = v1::AuditHeadService::NewStub(harness.Dial(scheduler));
  ASSERT_TRUE(
      Call<v1::SignedAuditHead>(*signing, &v1::AuditHeadService::Stub::ReportAuditHead, request)
          .ok());
  const auto heads_of_scheduler = [&] {
    const auto stub = v1::AuditHeadService::NewStub(harness.Dial(admin));
    const auto file = Call<v1::AuditHeadFile>(*stub, &v1::AuditHeadService::Stub::ExportAuditHeads,
                                              v1::ExportAuditHeadsRequest());
    int found = 0;
    for (const v1::SignedAuditHead& head : file.value().heads()) {
      v1::AuditHeadStatement statement;
      EXPECT_TRUE(statement.ParseFromString(head.statement()));
      found += statement.chain() == "scheduler" ? 1 : 0;
    }
    return found;
  };
  EXPECT_EQ(heads_of_scheduler(), 1);
  // /capstan/credentials/audit_heads/v1/{32 hex digits of the principal's SHA-256}/{first hash}
  const std::string digest = absl::BytesToHexString(Sha256::Of(scheduler->spiffe_id()));
  std::string hash;
  for (int i = 0; i < 32; ++i) hash += "5a";
  store::TxnRequest gone;
  gone.then.emplace_back(store::Delete{
      .key = absl::StrCat("/capstan/credentials/audit_heads/v1/", digest.substr(0, 32), "/", hash),
      .end = ""});
  ASSERT_TRUE(harness.WriteStore(gone).ok());
  EXPECT_EQ(heads_of_scheduler(), 0);
}

}  // namespace
}  // namespace capstan::credentials
