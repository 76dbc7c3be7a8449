#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_file.h"
#include "libs/audit/audit_log.h"
#include "libs/audit/audit_sink.h"
#include "libs/audit/signed_head.h"
#include "libs/golden/golden.h"
#include "libs/rpc/signature.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::audit {
namespace {

using credentials::v1::AuditHeadFile;
using credentials::v1::AuditHeadIndex;
using credentials::v1::AuditHeadStatement;
using event::v1::AuditRecord;

AuditEntry Entry(int i) {
  return {.principal = "spiffe://test.capstan.dev/person/1000",
          .act = "/capstan.credentials.v1.JoinService/Join",
          .resource = absl::StrCat("nodes/", i),
          .outcome_code = 7 * i,
          .message = "said",
          .repeats = i};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(StoredFormatTest, ReleasedChainsAreVerifiedAndGoOn) {
  const golden::Format format("libs/audit", "chain", "hex");
  SimulatedClock clock;
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/chain";
    WriteFile(path, version.bytes);
    {
      const auto log = AuditLog::Open(path, "scheduler", &clock);
      ASSERT_TRUE(log.ok()) << log.status() << golden::kMustRead;
      ASSERT_TRUE((*log)->Record(Entry(2)).ok());
    }
    std::vector<AuditRecord> records;
    const auto content = VerifyFile(path, "scheduler", absl::nullopt,
                                    [&](const AuditRecord& record) { records.push_back(record); });
    ASSERT_TRUE(content.ok()) << content.status() << golden::kMustRead;
    ASSERT_EQ(records.size(), 3u);
    EXPECT_EQ(content->torn_bytes, 0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(records[i].sequence(), i + 1);
      EXPECT_EQ(records[i].resource(), Entry(i).resource);
      EXPECT_EQ(records[i].outcome_code(), 7 * i);
      EXPECT_EQ(records[i].repeats(), i);
    }
  }
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/chain";
  {
    const auto log = AuditLog::Open(path, "scheduler", &clock);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int i : {0, 1}) ASSERT_TRUE((*log)->Record(Entry(i)).ok());
  }
  std::ifstream in(path, std::ios::binary);
  format.ExpectWritten(
      std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()));
}

// A signature is another one each time. So what is signed now is compared by its parts: which
// statement, and over which text the signature holds.
TEST(StoredFormatTest, ReleasedSignedHeadsHold) {
  const golden::Format format("libs/audit", "signed_heads", "txt");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    // The root in hex, then the exported file.
    const std::vector<std::string> lines = absl::StrSplit(version.bytes, '\n');
    ASSERT_GE(lines.size(), 2u);
    AuditHeadFile file;
    ASSERT_TRUE(file.ParseFromString(absl::HexStringToBytes(lines[1])));
    const auto heads = VerifyHeadFile(file, {absl::HexStringToBytes(lines[0])});
    ASSERT_TRUE(heads.ok()) << heads.status() << golden::kMustRead;
    ASSERT_EQ(heads->size(), 1u);
    EXPECT_EQ(heads->front().chain(), "scheduler");
    EXPECT_EQ(heads->front().sequence(), 2);
  }

  const rpc::TestAuthority authority;
  const rpc::Svid svid = authority.Issue("/svc/credentials");
  const rpc::PrivateKey key = rpc::PrivateKey::FromPem(svid.key_pem).value();
  AuditHeadStatement statement;
  statement.set_trust_domain(authority.trust_domain());
  statement.set_principal("spiffe://test.capstan.dev/svc/scheduler");
  statement.set_chain("scheduler");
  statement.set_first_hash(std::string(32, '\1'));
  statement.set_sequence(2);
  statement.set_hash(std::string(32, '\2'));
  statement.set_number(1);
  *statement.mutable_sign_time() = ToProto(SystemClock().Read().wall);
  AuditHeadIndex index;
  index.set_trust_domain(authority.trust_domain());
  *index.mutable_sign_time() = statement.sign_time();
  const auto head = SignHead(SignedKind::kHead, statement.SerializeAsString(), key, svid.chain[0]);
  ASSERT_TRUE(head.ok()) << head.status();
  const auto file = SignHeadFile({*head}, index, key, svid.chain[0]);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string signed_by = rpc::ParseCertificate(svid.chain[0])->public_key;
  EXPECT_EQ(file->heads(0).statement(), statement.SerializeAsString());
  EXPECT_TRUE(rpc::SignatureHolds(signed_by, "capstan audit head v1", file->heads(0).statement(),
                                  file->heads(0).signature()));
  EXPECT_TRUE(rpc::SignatureHolds(signed_by, "capstan audit index v1", file->index().statement(),
                                  file->index().signature()));
  format.KeepExample(absl::StrCat(absl::BytesToHexString(authority.root()), "\n",
                                  absl::BytesToHexString(file->SerializeAsString()), "\n"));
}

}  // namespace
}  // namespace capstan::audit
