#include "libs/audit/signed_head.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/rpc/signature.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/event/v1/audit.pb.h"

namespace capstan::audit {
namespace {

using credentials::v1::AuditHeadFile;
using credentials::v1::AuditHeadIndex;
using credentials::v1::AuditHeadStatement;
using credentials::v1::SignedAuditHead;

constexpr size_t kHeader = 8;
constexpr size_t kMaxRecord = 64 << 10;

// Nothing that is signed for one end can be taken for another.
absl::string_view PurposeOf(SignedKind kind) {
  return kind == SignedKind::kHead ? "capstan audit head v1" : "capstan audit index v1";
}

std::string NameOf(absl::string_view principal, absl::string_view chain,
                   absl::string_view first_hash) {
  return absl::StrCat("chain `", chain, "` of ", principal, " (",
                      absl::BytesToHexString(first_hash.substr(0, 8)), ")");
}

absl::Status Lost(absl::string_view reason, absl::string_view message) {
  return status::Error(absl::StatusCode::kDataLoss, reason, message);
}

// OK if credentials of `trust_domain` has signed at `time`.
absl::Status CheckSignature(SignedKind kind, const SignedAuditHead& head,
                            absl::string_view trust_domain, absl::Time time,
                            const std::vector<std::string>& roots, absl::string_view what) {
  const auto forged = [&](absl::string_view why) {
    return Lost("AUDIT_HEAD_FORGED", absl::StrCat(what, ": ", why));
  };
  const absl::StatusOr<rpc::Certificate> certificate = rpc::ParseCertificate(head.certificate());
  if (!certificate.ok()) return forged("its certificate cannot be read");
  if (certificate->uri != absl::StrCat("spiffe://", trust_domain, "/svc/credentials")) {
    return forged(absl::StrCat("it was not signed by credentials of ", trust_domain));
  }
  const absl::Status chain = rpc::VerifyChain(head.certificate(), {}, roots, time);
  if (!chain.ok()) {
    return forged(
        absl::StrCat("its certificate is not of this trust domain, or was not valid "
                     "when it says that it was signed: ",
                     chain.message()));
  }
  if (!rpc::SignatureHolds(certificate->public_key, PurposeOf(kind), head.statement(),
                           head.signature())) {
    return forged("its signature does not hold");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SignedAuditHead> SignHead(SignedKind kind, std::string statement,
                                         const rpc::PrivateKey& key, std::string certificate) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string signature, rpc::Sign(key, PurposeOf(kind), statement));
  SignedAuditHead head;
  head.set_statement(std::move(statement));
  head.set_signature(std::move(signature));
  head.set_certificate(std::move(certificate));
  return head;
}

absl::StatusOr<AuditHeadFile> SignHeadFile(std::vector<SignedAuditHead> heads, AuditHeadIndex index,
                                           const rpc::PrivateKey& key,
                                           const std::string& certificate) {
  AuditHeadFile file;
  for (SignedAuditHead& head : heads) {
    AuditHeadStatement statement;
    if (!statement.ParseFromString(head.statement())) {
      return Lost("AUDIT_HEAD_DAMAGED", "A stored audit head cannot be read.");
    }
    AuditHeadIndex::Entry* entry = index.add_entries();
    entry->set_principal(statement.principal());
    entry->set_chain(statement.chain());
    entry->set_first_hash(statement.first_hash());
    entry->set_statement_sha256(Sha256::Of(head.statement()));
    *file.add_heads() = std::move(head);
  }
  CAPSTAN_ASSIGN_OR_RETURN(
      *file.mutable_index(),
      SignHead(SignedKind::kIndex, index.SerializeAsString(), key, certificate));
  return file;
}

absl::StatusOr<std::vector<AuditHeadStatement>> VerifyHeadFile(
    const AuditHeadFile& file, const std::vector<std::string>& roots) {
  AuditHeadIndex index;
  if (!index.ParseFromString(file.index().statement())) {
    return Lost("AUDIT_HEAD_FORGED", "the index cannot be read");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckSignature(SignedKind::kIndex, file.index(), index.trust_domain(),
                                         ToTime(index.sign_time()), roots, "the index"));
  std::vector<AuditHeadStatement> statements;
  std::set<std::string> found;
  for (const SignedAuditHead& head : file.heads()) {
    AuditHeadStatement statement;
    if (!statement.ParseFromString(head.statement())) {
      return Lost("AUDIT_HEAD_FORGED", "a head cannot be read");
    }
    const std::string name =
        NameOf(statement.principal(), statement.chain(), statement.first_hash());
    CAPSTAN_RETURN_IF_ERROR(CheckSignature(SignedKind::kHead, head, index.trust_domain(),
                                           ToTime(statement.sign_time()), roots,
                                           absl::StrCat("the head of ", name)));
    if (statement.trust_domain() != index.trust_domain()) {
      return Lost("AUDIT_HEAD_UNKNOWN", absl::StrCat("the head of ", name,
                                                     " is of another trust "
                                                     "domain than the index"));
    }
    const std::string digest = Sha256::Of(head.statement());
    const bool listed = std::any_of(
        index.entries().begin(), index.entries().end(),
        [&](const AuditHeadIndex::Entry& entry) { return entry.statement_sha256() == digest; });
    if (!listed || !found.insert(digest).second) {
      return Lost("AUDIT_HEAD_UNKNOWN",
                  absl::StrCat("the head of ", name, ", number ", statement.number(),
                               ", is not the one that the index names"));
    }
    statements.push_back(std::move(statement));
  }
  for (const AuditHeadIndex::Entry& entry : index.entries()) {
    if (found.count(entry.statement_sha256()) > 0) continue;
    return Lost(
        "AUDIT_HEAD_MISSING",
        absl::StrCat("the head of ", NameOf(entry.principal(), entry.chain(), entry.first_hash()),
                     " is missing, though the index names it"));
  }
  return statements;
}

absl::StatusOr<std::string> FirstRecordHash(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  std::string bytes(kHeader, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(kHeader));
  uint32_t length = 0;
  for (int i = 3; i >= 0; --i) length = (length << 8) | static_cast<unsigned char>(bytes[i]);
  if (!in || length == 0 || length > kMaxRecord) {
    return absl::NotFoundError(absl::StrCat(path, " holds no whole record"));
  }
  bytes.resize(length);
  in.read(bytes.data(), static_cast<std::streamsize>(length));
  if (!in) return absl::NotFoundError(absl::StrCat(path, " holds no whole record"));
  return Sha256::Of(bytes);
}

absl::StatusOr<VerifiedFile> VerifyFileByHeads(const std::string& path,
                                               const std::vector<AuditHeadStatement>& heads) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string first, FirstRecordHash(path));
  VerifiedFile verified;
  for (const AuditHeadStatement& head : heads) {
    if (head.first_hash() != first) continue;
    // Every head that names this chain must hold, so that nobody's shorter one hides a cut.
    const absl::StatusOr<ChainContent> content =
        VerifyFile(path, head.chain(), ChainHead{head.sequence(), head.hash()},
                   [](const event::v1::AuditRecord&) {});
    if (!content.ok()) {
      return status::Annotate(content.status(),
                              NameOf(head.principal(), head.chain(), head.first_hash()));
    }
    verified.content = *content;
    if (head.sequence() > verified.head.sequence()) verified.head = head;
  }
  if (verified.head.sequence() == 0) {
    return Lost("AUDIT_CHAIN_UNKNOWN",
                absl::StrCat("no signed head is of the chain that begins with the first record of ",
                             path, " (", absl::BytesToHexString(first.substr(0, 8)),
                             "): the file was replaced, or its chain was never signed"));
  }
  verified.unsigned_records = verified.content.head.sequence - verified.head.sequence();
  return verified;
}

}  // namespace capstan::audit
