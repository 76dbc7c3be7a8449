#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_AUDIT_HEAD_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_AUDIT_HEAD_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/identity.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/audit_head.grpc.pb.h"

namespace capstan::credentials {

// Signs the heads of the parts' audit chains with this replica's own SVID, and keeps the newest of
// each chain in the store, by a transaction that compares the one before: a chain can only grow,
// whichever replica is told. The chain of credentials itself is read from the store and signed the
// same way before each export, which fails if it was cut.
class AuditHeadServiceHandlers final : public v1::AuditHeadService::CallbackService {
 public:
  // Chains of one principal: a part that lost its folder begins a new one.
  static constexpr int64_t kMaxChains = 64;

  struct Deps {
    // All must outlive it.
    store::Store* store = nullptr;
    auth::Access* access = nullptr;
    const Clock* clock = nullptr;
    // Where a chain that was cut or rewritten is recorded.
    audit::AuditSink* audit = nullptr;
    // Of this replica, `/svc/credentials`.
    std::shared_ptr<const rpc::Identity> identity;
  };
  explicit AuditHeadServiceHandlers(Deps deps) : deps_(std::move(deps)) {}

  grpc::ServerUnaryReactor* ReportAuditHead(grpc::CallbackServerContext* context,
                                            const v1::ReportAuditHeadRequest* request,
                                            v1::SignedAuditHead* response) override;
  grpc::ServerUnaryReactor* ExportAuditHeads(grpc::CallbackServerContext* context,
                                             const v1::ExportAuditHeadsRequest* request,
                                             v1::AuditHeadFile* response) override;

 private:
  struct Report {
    std::string principal;
    v1::ReportAuditHeadRequest request;
    v1::SignedAuditHead* response;
    rpc::Finish finish;
    // Of credentials' own chain: what to report is read from the store.
    bool own = false;
    int attempts = 0;
  };

  // Reads the head that is kept, decides, and puts the next one.
  void Look(std::shared_ptr<Report> report);
  // As Look, with how far credentials' own chain has come at the same revision: it can't be shorter
  // than its signed head unless somebody has cut it.
  void LookAtOwn(std::shared_ptr<Report> report);
  void Decide(std::shared_ptr<Report> report, const store::RangeResult& found);
  void Put(std::shared_ptr<Report> report, const v1::AuditHeadStatement& statement,
           int64_t mod_revision);
  void Refuse(const Report& report, const absl::Status& why) const;
  // Answers with all heads as they are kept.
  void Export(v1::AuditHeadFile* response, rpc::Finish finish);

  const Deps deps_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_AUDIT_HEAD_SERVICE_H_
