#include "libs/audit/signed_head.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_file.h"
#include "libs/audit/audit_log.h"
#include "libs/audit/audit_sink.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/audit_head.pb.h"

namespace capstan::audit {
namespace {

using credentials::v1::AuditHeadFile;
using credentials::v1::AuditHeadIndex;
using credentials::v1::AuditHeadStatement;
using credentials::v1::SignedAuditHead;
using ::testing::HasSubstr;

// Parts with audit files, and credentials' side of signing.
class SignedHeadTest : public ::testing::Test {
 protected:
  // Appends records to a part's file, as the part itself would.
  void Write(const std::string& part, int records) {
    auto log = AuditLog::Open(File(part), part, &clock_);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int i = 0; i < records; ++i) {
      clock_.Advance(absl::Seconds(1));
      ASSERT_TRUE((*log)
                      ->Record({.principal = "someone",
                                .act = "act",
                                .resource = "",
                                .outcome_code = 0,
                                .message = "",
                                .repeats = 0})
                      .ok());
    }
    heads_[part] = (*log)->head();
  }
  std::string File(const std::string& part) const {
    return absl::StrCat(folder_.path(), "/", part, ".chain");
  }
  SignedAuditHead Sign(const std::string& part, const rpc::TestAuthority& authority) {
    AuditHeadStatement statement;
    statement.set_trust_domain(authority.trust_domain());
    statement.set_principal(absl::StrCat("spiffe://", authority.trust_domain(), "/svc/", part));
    statement.set_chain(part);
    statement.set_first_hash(FirstRecordHash(File(part)).value());
    statement.set_sequence(heads_[part].sequence);
    statement.set_hash(heads_[part].hash);
    statement.set_number(++numbers_[part]);
    *statement.mutable_sign_time() = ToProto(SystemClock().Read().wall);
    return SignBytes(SignedKind::kHead, statement.SerializeAsString(), authority);
  }
  static SignedAuditHead SignBytes(SignedKind kind, const std::string& bytes,
                                   const rpc::TestAuthority& authority,
                                   absl::string_view path = "/svc/credentials") {
    const rpc::Svid svid = authority.Issue(path);
    return SignHead(kind, bytes, rpc::PrivateKey::FromPem(svid.key_pem).value(), svid.chain[0])
        .value();
  }
  AuditHeadFile Export(std::vector<SignedAuditHead> heads) {
    AuditHeadIndex index;
    index.set_trust_domain(authority_.trust_domain());
    *index.mutable_sign_time() = ToProto(SystemClock().Read().wall);
    const rpc::Svid svid = authority_.Issue("/svc/credentials");
    return SignHeadFile(std::move(heads), index, rpc::PrivateKey::FromPem(svid.key_pem).value(),
                        svid.chain[0])
        .value();
  }
  absl::StatusOr<VerifiedFile> Verify(const AuditHeadFile& file, const std::string& part) {
    const auto heads = VerifyHeadFile(file, {authority_.root()});
    if (!heads.ok()) return heads.status();
    return VerifyFileByHeads(File(part), *heads);
  }
  std::string Read(const std::string& part) const {
    std::ifstream in(File(part), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  void Replace(const std::string& part, const std::string& bytes) const {
    std::ofstream out(File(part), std::ios::binary | std::ios::trunc);
    out << bytes;
  }

  SimulatedClock clock_;
  const TemporaryFolder folder_;
  const rpc::TestAuthority authority_;
  std::map<std::string, ChainHead> heads_;
  std::map<std::string, int64_t> numbers_;
};

TEST_F(SignedHeadTest, AnHonestChainVerifiesAndSaysWhatNoHeadCoversYet) {
  Write("scheduler", 20);
  Write("telemetry", 3);
  const AuditHeadFile file = Export({Sign("scheduler", authority_), Sign("telemetry", authority_)});
  const auto verified = Verify(file, "scheduler");
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->content.head.sequence, 20);
  EXPECT_EQ(verified->unsigned_records, 0);
  EXPECT_EQ(verified->head.chain(), "scheduler");
  Write("scheduler", 5);
  EXPECT_EQ(Verify(file, "scheduler")->unsigned_records, 5);
  EXPECT_TRUE(Verify(file, "telemetry").ok());
}

TEST_F(SignedHeadTest, ACutFileIsFoundWhereverItIsCut) {
  Write("scheduler", 9);
  const std::string nine = Read("scheduler");
  Write("scheduler", 1);
  const std::string ten = Read("scheduler");
  const AuditHeadFile file = Export({Sign("scheduler", authority_)});
  ASSERT_TRUE(Verify(file, "scheduler").ok());
  // At the end of a record, within one, and down to the first.
  for (const std::string& cut :
       {nine, ten.substr(0, ten.size() - 1), ten.substr(0, nine.size() / 2)}) {
    Replace("scheduler", cut);
    const auto found = Verify(file, "scheduler");
    EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(status::Reason(found.status()), "AUDIT_CHAIN_BROKEN") << found.status();
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("up to 10"));
  }
  Replace("scheduler", "");
  EXPECT_FALSE(Verify(file, "scheduler").ok());
}

TEST_F(SignedHeadTest, AShorterHeadOfTheSameChainHidesNothing) {
  Write("scheduler", 2);
  const std::string two = Read("scheduler");
  const SignedAuditHead shorter = Sign("scheduler", authority_);
  Write("scheduler", 6);
  const AuditHeadFile file = Export({shorter, Sign("scheduler", authority_)});
  EXPECT_EQ(Verify(file, "scheduler")->head.sequence(), 8);
  Replace("scheduler", two);
  EXPECT_EQ(status::Reason(Verify(file, "scheduler").status()), "AUDIT_CHAIN_BROKEN");
}

TEST_F(SignedHeadTest, AnOlderCopyIsFound) {
  Write("scheduler", 4);
  const std::string old = Read("scheduler");
  Write("scheduler", 4);
  const AuditHeadFile file = Export({Sign("scheduler", authority_)});
  Replace("scheduler", old);
  const auto found = Verify(file, "scheduler");
  EXPECT_EQ(status::Reason(found.status()), "AUDIT_CHAIN_BROKEN");
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("record 5"));
  // Written on, so that it is as long as before, it is another chain from its fifth record on.
  Write("scheduler", 6);
  EXPECT_EQ(status::Reason(Verify(file, "scheduler").status()), "AUDIT_CHAIN_BROKEN");
}

TEST_F(SignedHeadTest, AReplacedFileIsFound) {
  Write("scheduler", 8);
  const AuditHeadFile file = Export({Sign("scheduler", authority_)});
  std::filesystem::remove(File("scheduler"));
  Write("scheduler", 12);
  const auto found = Verify(file, "scheduler");
  EXPECT_EQ(status::Reason(found.status()), "AUDIT_CHAIN_UNKNOWN") << found.status();
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(File("scheduler")));
}

TEST_F(SignedHeadTest, AHeadThatIsMissingOrOldIsNamed) {
  Write("scheduler", 8);
  Write("telemetry", 2);
  const SignedAuditHead old = Sign("scheduler", authority_);
  Write("scheduler", 8);
  AuditHeadFile file = Export({Sign("scheduler", authority_), Sign("telemetry", authority_)});
  AuditHeadFile cut = file;
  cut.mutable_heads()->RemoveLast();
  const auto missing = VerifyHeadFile(cut, {authority_.root()});
  EXPECT_EQ(status::Reason(missing.status()), "AUDIT_HEAD_MISSING");
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("`telemetry`"));
  *file.mutable_heads(0) = old;
  const auto rolled_back = VerifyHeadFile(file, {authority_.root()});
  EXPECT_EQ(status::Reason(rolled_back.status()), "AUDIT_HEAD_UNKNOWN");
  EXPECT_THAT(std::string(rolled_back.status().message()), HasSubstr("`scheduler`"));
}

TEST_F(SignedHeadTest, ForgeriesAreFound) {
  Write("scheduler", 8);
  const rpc::TestAuthority stranger(authority_.trust_domain());
  const SignedAuditHead good = Sign("scheduler", authority_);
  const auto reason = [&](const AuditHeadFile& file) {
    return status::Reason(VerifyHeadFile(file, {authority_.root()}).status());
  };
  ASSERT_EQ(reason(Export({good})), "");
  // By a stranger's authority, by another part of ours, changed afterwards, with no signature, with
  // that of something else.
  EXPECT_EQ(reason(Export({Sign("scheduler", stranger)})), "AUDIT_HEAD_FORGED");
  EXPECT_EQ(reason(Export(
                {SignBytes(SignedKind::kHead, good.statement(), authority_, "/svc/scheduler")})),
            "AUDIT_HEAD_FORGED");
  EXPECT_EQ(reason(Export({SignBytes(SignedKind::kIndex, good.statement(), authority_)})),
            "AUDIT_HEAD_FORGED");
  SignedAuditHead changed = good;
  AuditHeadStatement statement;
  ASSERT_TRUE(statement.ParseFromString(good.statement()));
  statement.set_sequence(4);
  changed.set_statement(statement.SerializeAsString());
  EXPECT_EQ(reason(Export({changed})), "AUDIT_HEAD_FORGED");
  changed = good;
  changed.clear_signature();
  EXPECT_EQ(reason(Export({changed})), "AUDIT_HEAD_FORGED");
  // A statement from before the certificate was valid.
  ASSERT_TRUE(statement.ParseFromString(good.statement()));
  *statement.mutable_sign_time() = ToProto(SystemClock().Read().wall - absl::Hours(48));
  EXPECT_EQ(
      reason(Export({SignBytes(SignedKind::kHead, statement.SerializeAsString(), authority_)})),
      "AUDIT_HEAD_FORGED");
  // The index itself.
  AuditHeadFile file = Export({good});
  file.mutable_index()->mutable_signature()->back() ^= 1;
  EXPECT_EQ(reason(file), "AUDIT_HEAD_FORGED");
  file.clear_index();
  EXPECT_EQ(reason(file), "AUDIT_HEAD_FORGED");
}

}  // namespace
}  // namespace capstan::audit
