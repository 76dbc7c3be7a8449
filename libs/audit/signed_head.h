// Signed heads of audit chains: made by credentials, verified by anyone with the trust bundle.
#ifndef CAPSTAN_LIBS_AUDIT_SIGNED_HEAD_H_
#define CAPSTAN_LIBS_AUDIT_SIGNED_HEAD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/audit/audit_file.h"
#include "libs/rpc/x509.h"
#include "proto/capstan/credentials/v1/audit_head.pb.h"

namespace capstan::audit {

// What a signature is about; each has a text of its own in front of what is signed.
enum class SignedKind { kHead, kIndex };

// Signs with the key of the SVID whose leaf is `certificate` (DER).
absl::StatusOr<credentials::v1::SignedAuditHead> SignHead(SignedKind kind, std::string statement,
                                                          const rpc::PrivateKey& key,
                                                          std::string certificate);

// Signs an index of exactly these heads. DATA_LOSS if one of them cannot be read.
absl::StatusOr<credentials::v1::AuditHeadFile> SignHeadFile(
    std::vector<credentials::v1::SignedAuditHead> heads, credentials::v1::AuditHeadIndex index,
    const rpc::PrivateKey& key, const std::string& certificate);

// Verifies an exported file by the roots (DER) of the trust bundle: that credentials of their trust
// domain has signed each head and the index at a time when its certificate was valid, and that the
// heads are exactly those of the index. Their statements, in the file's order. DATA_LOSS, naming
// the chain, with reason
//   AUDIT_HEAD_FORGED   a signature or certificate does not hold;
//   AUDIT_HEAD_MISSING  the index names a head that is not there;
//   AUDIT_HEAD_UNKNOWN  a head is not in the index, or not the newest one.
absl::StatusOr<std::vector<credentials::v1::AuditHeadStatement>> VerifyHeadFile(
    const credentials::v1::AuditHeadFile& file, const std::vector<std::string>& roots);

// What a chain's file was found to hold.
struct VerifiedFile {
  ChainContent content;
  credentials::v1::AuditHeadStatement head;
  // Records behind the signed head, which no signature covers yet.
  int64_t unsigned_records = 0;
};

// Verifies a part's whole audit file against all signed heads that name its chain. DATA_LOSS with
// reason
//   AUDIT_CHAIN_BROKEN      a record was changed, removed, inserted or reordered, or the file ends
//                           before the signed head (`sequence` is the first record that is bad or
//                           missing);
//   AUDIT_CHAIN_UNKNOWN     no signed head is of the chain that begins with the file's first
//                           record: the file was replaced, or has never been signed.
absl::StatusOr<VerifiedFile> VerifyFileByHeads(
    const std::string& path, const std::vector<credentials::v1::AuditHeadStatement>& heads);

// SHA-256 of the first record of an audit file as stored: the name of its chain. NOT_FOUND if it
// holds no whole record.
absl::StatusOr<std::string> FirstRecordHash(const std::string& path);

}  // namespace capstan::audit

#endif  // CAPSTAN_LIBS_AUDIT_SIGNED_HEAD_H_
