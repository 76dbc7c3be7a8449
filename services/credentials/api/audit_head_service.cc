#include "services/credentials/api/audit_head_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/audit/signed_head.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/digest/sha256.h"
#include "libs/rpc/unary.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/audit_chain.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

constexpr char kReport[] = "/capstan.credentials.v1.AuditHeadService/ReportAuditHead";
constexpr char kExport[] = "/capstan.credentials.v1.AuditHeadService/ExportAuditHeads";
// Outside of what the engine mirrors: heads come often and nothing is decided from them.
constexpr char kHeadPrefix[] = "/capstan/credentials/audit_heads/v1/";
// Two replicas told of one chain at once; a third time something else is wrong.
constexpr int kMostAttempts = 3;
// Below what one message of gRPC holds (4 MiB).
constexpr size_t kMostExported = 3'000;

std::string PrincipalPrefix(absl::string_view principal) {
  return absl::StrCat(kHeadPrefix, absl::BytesToHexString(Sha256::Of(principal)).substr(0, 32),
                      "/");
}

std::string HeadKey(absl::string_view principal, absl::string_view first_hash) {
  return absl::StrCat(PrincipalPrefix(principal), absl::BytesToHexString(first_hash));
}

absl::Status Validate(const v1::ReportAuditHeadRequest& request) {
  status::FieldErrors errors;
  if (request.chain().empty() || request.chain().size() > 64) {
    errors.Add("chain", "expected a name of 1 to 64 bytes");
  }
  if (request.first_hash().size() != 32) errors.Add("first_hash", "expected 32 bytes");
  if (request.hash().size() != 32) errors.Add("hash", "expected 32 bytes");
  if (request.sequence() < 1) errors.Add("sequence", "expected at least 1");
  return errors.ToStatus();
}

}  // namespace

grpc::ServerUnaryReactor* AuditHeadServiceHandlers::ReportAuditHead(
    grpc::CallbackServerContext* context, const v1::ReportAuditHeadRequest* request,
    v1::SignedAuditHead* response) {
  return rpc::HandleUnary(context, deps_.access, kReport, request, response, Validate,
                          [this](const rpc::Call& call, const v1::ReportAuditHeadRequest& request,
                                 v1::SignedAuditHead* response, rpc::Finish finish) {
                            auto report =
                                std::make_shared<Report>(Report{.principal = call.caller.Name(),
                                                                .request = request,
                                                                .response = response,
                                                                .finish = std::move(finish)});
                            Look(std::move(report));
                          });
}

void AuditHeadServiceHandlers::Look(std::shared_ptr<Report> report) {
  if (report->own) return LookAtOwn(std::move(report));
  // All chains of the principal: there are few, and a new one must not be one too many.
  store::RangeRequest range;
  range.key = PrincipalPrefix(report->principal);
  range.end = store::PrefixEnd(range.key);
  deps_.store->Range(std::move(range), [this, report](absl::StatusOr<store::RangeResult> found) {
    if (!found.ok()) return report->finish(found.status());
    Decide(report, *found);
  });
}

void AuditHeadServiceHandlers::LookAtOwn(std::shared_ptr<Report> report) {
  store::TxnRequest read;
  store::RangeRequest kept;
  kept.key = PrincipalPrefix(report->principal);
  kept.end = store::PrefixEnd(kept.key);
  read.then.emplace_back(std::move(kept));
  for (const std::string& key : {std::string(kAuditHeadKey), AuditKey(1)}) {
    store::RangeRequest one;
    one.key = key;
    read.then.emplace_back(std::move(one));
  }
  deps_.store->Txn(std::move(read), [this, report](absl::StatusOr<store::TxnResult> found) {
    if (!found.ok()) return report->finish(found.status());
    const std::vector<store::KeyValue>& head_kvs = found->ranges[1].kvs;
    const std::vector<store::KeyValue>& first_kvs = found->ranges[2].kvs;
    v1::AuditHeadRecord head;
    if (head_kvs.empty() || !head.ParseFromString(head_kvs[0].value) || first_kvs.empty()) {
      return report->finish(
          absl::DataLossError("The head or the first record of credentials' own audit chain is "
                              "missing or cannot be read."));
    }
    report->request.set_chain(kAuditChain);
    report->request.set_first_hash(Sha256::Of(first_kvs[0].value));
    report->request.set_sequence(head.sequence());
    report->request.set_hash(head.hash());
    Decide(report, found->ranges[0]);
  });
}

void AuditHeadServiceHandlers::Decide(std::shared_ptr<Report> report,
                                      const store::RangeResult& found) {
  const v1::ReportAuditHeadRequest& request = report->request;
  const std::string key = HeadKey(report->principal, request.first_hash());
  v1::AuditHeadStatement statement;
  statement.set_number(1);
  int64_t mod_revision = 0;
  for (const store::KeyValue& kv : found.kvs) {
    if (kv.key != key) continue;
    mod_revision = kv.mod_revision;
    v1::SignedAuditHead kept;
    v1::AuditHeadStatement last;
    if (!kept.ParseFromString(kv.value) || !last.ParseFromString(kept.statement())) {
      return report->finish(absl::DataLossError("A kept audit head cannot be read."));
    }
    if (request.sequence() == last.sequence() && request.hash() == last.hash()) {
      *report->response = std::move(kept);
      return report->finish(absl::OkStatus());
    }
    if (request.sequence() <= last.sequence()) {
      const bool cut = request.sequence() < last.sequence();
      const absl::Status why = status::Error(
          absl::StatusCode::kFailedPrecondition, cut ? "AUDIT_ROLLED_BACK" : "AUDIT_REWRITTEN",
          cut ? absl::StrCat("The chain ends at record ", request.sequence(),
                             ", but its signed head is record ", last.sequence(), ".")
              : absl::StrCat("Record ", request.sequence(), " is not the one that was signed."),
          {{"chain", request.chain()}, {"signed", absl::StrCat(last.sequence())}});
      Refuse(*report, why);
      return report->finish(why);
    }
    statement.set_number(last.number() + 1);
    statement.set_previous_sha256(Sha256::Of(kept.statement()));
  }
  if (mod_revision == 0 && static_cast<int64_t>(found.kvs.size()) >= kMaxChains) {
    const absl::Status why = status::Error(
        absl::StatusCode::kResourceExhausted, "TOO_MANY_AUDIT_CHAINS",
        absl::StrCat(report->principal, " has ", kMaxChains, " audit chains already."));
    Refuse(*report, why);
    return report->finish(why);
  }
  statement.set_trust_domain(deps_.identity->trust_domain());
  statement.set_principal(report->principal);
  statement.set_chain(request.chain());
  statement.set_first_hash(request.first_hash());
  statement.set_sequence(request.sequence());
  statement.set_hash(request.hash());
  *statement.mutable_sign_time() = ToProto(deps_.clock->Read().wall);
  Put(std::move(report), statement, mod_revision);
}

void AuditHeadServiceHandlers::Put(std::shared_ptr<Report> report,
                                   const v1::AuditHeadStatement& statement, int64_t mod_revision) {
  const std::shared_ptr<const rpc::IdentitySnapshot> signer = deps_.identity->Get();
  absl::StatusOr<rpc::PrivateKey> key = rpc::PrivateKey::FromPem(signer->svid.key_pem);
  if (!key.ok()) return report->finish(key.status());
  absl::StatusOr<v1::SignedAuditHead> head = audit::SignHead(
      audit::SignedKind::kHead, statement.SerializeAsString(), *key, signer->svid.chain[0]);
  if (!head.ok()) return report->finish(head.status());
  const std::string store_key = HeadKey(report->principal, report->request.first_hash());
  store::TxnRequest txn;
  txn.compares.push_back({.key = store_key,
                          .target = store::Compare::Target::kModRevision,
                          .op = store::Compare::Op::kEqual,
                          .number = mod_revision});
  txn.then.emplace_back(store::Put{.key = store_key, .value = head->SerializeAsString()});
  CrashPoint(crash::kCredentialsHeadSigned);
  deps_.store->Txn(std::move(txn), [this, report,
                                    head = *std::move(head)](absl::StatusOr<store::TxnResult> put) {
    if (!put.ok()) return report->finish(put.status());
    if (put->succeeded) {
      CrashPoint(crash::kCredentialsHeadStored);
      *report->response = head;
      return report->finish(absl::OkStatus());
    }
    if (++report->attempts < kMostAttempts) return Look(report);
    report->finish(absl::UnavailableError("The chain's head is being reported elsewhere."));
  });
}

void AuditHeadServiceHandlers::Refuse(const Report& report, const absl::Status& why) const {
  // Repeats are folded; the refusal itself does not wait for its record.
  deps_.audit
      ->Record({.principal = report.principal,
                .act = kReport,
                .resource = absl::StrCat("auditChains/", report.request.chain(), "/",
                                         absl::BytesToHexString(report.request.first_hash())),
                .outcome_code = static_cast<int>(why.code()),
                .message = std::string(why.message())})
      .IgnoreError();
}

grpc::ServerUnaryReactor* AuditHeadServiceHandlers::ExportAuditHeads(
    grpc::CallbackServerContext* context, const v1::ExportAuditHeadsRequest* request,
    v1::AuditHeadFile* response) {
  return rpc::HandleUnary(
      context, deps_.access, kExport, request, response, rpc::NothingToValidate(),
      [this](const rpc::Call&, const v1::ExportAuditHeadsRequest&, v1::AuditHeadFile* response,
             rpc::Finish finish) {
        auto own_head = std::make_shared<v1::SignedAuditHead>();
        rpc::Finish then([this, response, own_head,
                          finish = std::move(finish)](const absl::Status& signed_own) mutable {
          if (!signed_own.ok()) return finish(signed_own);
          Export(response, std::move(finish));
        });
        Look(std::make_shared<Report>(Report{.principal = deps_.identity->spiffe_id(),
                                             .request = {},
                                             .response = own_head.get(),
                                             .finish = std::move(then),
                                             .own = true}));
      });
}

void AuditHeadServiceHandlers::Export(v1::AuditHeadFile* response, rpc::Finish finish) {
  store::RangeRequest range;
  range.key = kHeadPrefix;
  range.end = store::PrefixEnd(kHeadPrefix);
  range.limit = static_cast<int64_t>(kMostExported);
  deps_.store->Range(std::move(range), [this, response, finish = std::move(finish)](
                                           absl::StatusOr<store::RangeResult> found) mutable {
    if (!found.ok()) return finish(found.status());
    if (found->more) {
      return finish(status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_AUDIT_CHAINS",
                                  absl::StrCat("There are more than ", kMostExported, " chains.")));
    }
    std::vector<v1::SignedAuditHead> heads;
    for (const store::KeyValue& kv : found->kvs) {
      if (!heads.emplace_back().ParseFromString(kv.value)) {
        return finish(absl::DataLossError("A kept audit head cannot be read."));
      }
    }
    const std::shared_ptr<const rpc::IdentitySnapshot> signer = deps_.identity->Get();
    const absl::StatusOr<rpc::PrivateKey> key = rpc::PrivateKey::FromPem(signer->svid.key_pem);
    if (!key.ok()) return finish(key.status());
    v1::AuditHeadIndex index;
    index.set_trust_domain(deps_.identity->trust_domain());
    *index.mutable_sign_time() = ToProto(deps_.clock->Read().wall);
    absl::StatusOr<v1::AuditHeadFile> file =
        audit::SignHeadFile(std::move(heads), std::move(index), *key, signer->svid.chain[0]);
    if (!file.ok()) return finish(file.status());
    *response = *std::move(file);
    finish(absl::OkStatus());
  });
}

}  // namespace capstan::credentials
