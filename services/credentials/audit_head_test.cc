// A part's audit file and what credentials signs of it, over mTLS on loopback.
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_file.h"
#include "libs/audit/audit_log.h"
#include "libs/audit/signed_head.h"
#include "libs/digest/sha256.h"
#include "libs/rpc/identity.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/store.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/audit_head.grpc.pb.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/store_key.h"
#include "services/credentials/testing/server_harness.h"

namespace capstan::credentials {
namespace {

class AuditHeadTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status started = harness_.Start();
    ASSERT_TRUE(started.ok()) << started;
    admin_ = harness_.Person().value();
    scheduler_ = Joined("/svc/scheduler");
    node_ = Joined("/node/local/n1");
  }

  std::shared_ptr<rpc::Identity> Joined(const std::string& path) {
    const auto token = harness_.MakeToken(admin_, path);
    EXPECT_TRUE(token.ok()) << token.status();
    return harness_.JoinAs(*token).value();
  }
  std::string File(const std::string& part) const {
    return absl::StrCat(folder_.path(), "/", part, ".chain");
  }
  // Appends records and returns the head.
  audit::ChainHead Write(const std::string& part, int records) {
    auto log = audit::AuditLog::Open(File(part), part, &clock_).value();
    for (int i = 0; i < records; ++i) {
      EXPECT_TRUE(log->Record({.principal = "someone",
                               .act = "act",
                               .resource = "",
                               .outcome_code = 0,
                               .message = "",
                               .repeats = 0})
                      .ok());
    }
    return log->head();
  }
  absl::StatusOr<v1::SignedAuditHead> Report(const std::shared_ptr<rpc::Identity>& who,
                                             const std::string& part,
                                             const audit::ChainHead& head) {
    const auto stub = v1::AuditHeadService::NewStub(harness_.Dial(who));
    v1::ReportAuditHeadRequest request;
    request.set_chain(part);
    request.set_first_hash(audit::FirstRecordHash(File(part)).value());
    request.set_sequence(head.sequence);
    request.set_hash(head.hash);
    return Call<v1::SignedAuditHead>(*stub, &v1::AuditHeadService::Stub::ReportAuditHead, request);
  }
  absl::StatusOr<std::vector<v1::AuditHeadStatement>> Export() {
    const auto stub = v1::AuditHeadService::NewStub(harness_.Dial(admin_));
    auto file = Call<v1::AuditHeadFile>(*stub, &v1::AuditHeadService::Stub::ExportAuditHeads,
                                        v1::ExportAuditHeadsRequest());
    if (!file.ok()) return file.status();
    return audit::VerifyHeadFile(*file, admin_->Get()->svid.bundle);
  }

  SystemClock clock_;
  const TemporaryFolder harness_folder_;
  const TemporaryFolder folder_;
  ServerHarness harness_{harness_folder_.path()};
  std::shared_ptr<rpc::Identity> admin_;
  std::shared_ptr<rpc::Identity> scheduler_;
  std::shared_ptr<rpc::Identity> node_;
};

TEST_F(AuditHeadTest, AChainThatWasCutIsRefusedRecordedAndFoundOffline) {
  const audit::ChainHead five = Write("scheduler", 5);
  ASSERT_TRUE(Report(scheduler_, "scheduler", five).ok());
  const audit::ChainHead nine = Write("scheduler", 4);
  const auto signed_head = Report(scheduler_, "scheduler", nine);
  ASSERT_TRUE(signed_head.ok()) << signed_head.status();
  // A lost answer: the same is asked again.
  EXPECT_EQ(Report(scheduler_, "scheduler", nine)->SerializeAsString(),
            signed_head->SerializeAsString());
  ASSERT_TRUE(Report(node_, "node_agent", Write("node_agent", 2)).ok());
  auto heads = Export();
  ASSERT_TRUE(heads.ok()) << heads.status();
  // And that of credentials' own.
  ASSERT_EQ(heads->size(), 3u);
  const auto verified = audit::VerifyFileByHeads(File("scheduler"), *heads);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->head.number(), 2);
  EXPECT_EQ(verified->head.principal(), scheduler_->spiffe_id());

  EXPECT_EQ(status::Reason(Report(scheduler_, "scheduler", five).status()), "AUDIT_ROLLED_BACK");
  audit::ChainHead other = nine;
  other.hash = std::string(32, 'x');
  EXPECT_EQ(status::Reason(Report(scheduler_, "scheduler", other).status()), "AUDIT_REWRITTEN");
  // A restart of credentials forgets nothing.
  harness_.Stop();
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_EQ(status::Reason(Report(scheduler_, "scheduler", five).status()), "AUDIT_ROLLED_BACK");
  heads = Export();
  ASSERT_TRUE(heads.ok()) << heads.status();
  ASSERT_EQ(truncate(File("scheduler").c_str(), 0), 0);
  Write("scheduler", 9);
  EXPECT_EQ(status::Reason(audit::VerifyFileByHeads(File("scheduler"), *heads).status()),
            "AUDIT_CHAIN_UNKNOWN");
  const auto records = harness_.Audit(admin_);
  ASSERT_TRUE(records.ok()) << records.status();
  int refused = 0;
  for (const auto& record : *records) {
    if (absl::EndsWith(record.act(), "/ReportAuditHead") && record.outcome_code() != 0) ++refused;
  }
  EXPECT_GE(refused, 2);
}

TEST_F(AuditHeadTest, APrincipalHasItsOwnChainsAndPeopleNone) {
  const audit::ChainHead head = Write("scheduler", 3);
  ASSERT_TRUE(Report(scheduler_, "scheduler", head).ok());
  // The Node can neither shorten nor claim the scheduler's chain: what it says is its own.
  const audit::ChainHead one = {.sequence = 1, .hash = std::string(32, 'x')};
  ASSERT_TRUE(Report(node_, "scheduler", one).ok());
  EXPECT_EQ(Export()->size(), 3u);
  EXPECT_EQ(Report(admin_, "scheduler", head).status().code(), absl::StatusCode::kPermissionDenied);
  audit::ChainHead bad = head;
  bad.hash = "short";
  const auto refused = Report(scheduler_, "scheduler", bad);
  ASSERT_EQ(status::GetFieldViolations(refused.status()).size(), 1u);
  EXPECT_EQ(status::GetFieldViolations(refused.status())[0].field, "hash");
}

// Credentials' own chain lies in its store: who can write that can cut it, and what was signed and
// kept elsewhere tells.
TEST_F(AuditHeadTest, ItsOwnChainIsSignedAndCantBeCutUnseen) {
  const auto heads = Export();
  ASSERT_TRUE(heads.ok()) << heads.status();
  ASSERT_EQ(heads->size(), 1u);
  const v1::AuditHeadStatement& own = heads->front();
  EXPECT_TRUE(absl::EndsWith(own.principal(), "/svc/credentials")) << own.principal();
  EXPECT_EQ(own.chain(), "credentials");
  auto records = harness_.Audit(admin_);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_GE(own.sequence(), 3);
  ASSERT_LE(own.sequence(), static_cast<int64_t>(records->size()));
  const auto hash = [&](int64_t sequence) {
    return Sha256::Of((*records)[sequence - 1].SerializeAsString());
  };
  EXPECT_EQ(own.first_hash(), hash(1));
  EXPECT_EQ(own.hash(), hash(own.sequence()));

  // It grows, and so do its heads; where nothing came there is no second one.
  ASSERT_TRUE(harness_.MakeToken(admin_, "/svc/telemetry").ok());
  const auto grown = Export();
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_EQ(grown->front().number(), 2);
  EXPECT_EQ(grown->front().previous_sha256().size(), 32u);
  EXPECT_EQ(Export()->front().SerializeAsString(), grown->front().SerializeAsString());

  store::TxnRequest cut;
  v1::AuditHeadRecord head;
  head.set_schema(kSchema);
  head.set_sequence(2);
  head.set_hash(hash(2));
  cut.then.emplace_back(store::Put{.key = kAuditHeadKey, .value = head.SerializeAsString()});
  cut.then.emplace_back(
      store::Delete{.key = AuditKey(3), .end = store::PrefixEnd(std::string(kAuditPrefix))});
  ASSERT_TRUE(harness_.WriteStore(std::move(cut)).ok());
  harness_.Stop();
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_EQ(status::Reason(Export().status()), "AUDIT_ROLLED_BACK");
}

}  // namespace
}  // namespace capstan::credentials
