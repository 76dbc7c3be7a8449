#include <string>

#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/audit_service.grpc.pb.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "tools/capstan/cli/audit_chain.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/project_commands.h"
#include "tools/capstan/cli/proto_text.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using credentials::v1::AuditHead;
using credentials::v1::AuditService;
using credentials::v1::GetAuditHeadRequest;
using credentials::v1::ListAuditRecordsRequest;
using event::v1::AuditRecord;

void PrintRecord(const AuditRecord& record, Invocation& invocation) {
  if (invocation.format == OutputFormat::kJson) {
    *invocation.out << ToJson(record);
    return;
  }
  *invocation.out << record.sequence() << " "
                  << absl::FormatTime(absl::RFC3339_sec, ToTime(record.record_time()),
                                      absl::UTCTimeZone())
                  << " " << (record.outcome_code() == 0 ? "ok" : "refused") << " "
                  << WithoutControls(record.principal()) << " " << WithoutControls(record.act())
                  << " " << WithoutControls(record.resource())
                  << (record.message().empty() ? "" : " - ") << WithoutControls(record.message())
                  << (record.repeats() > 0 ? absl::StrCat(" (", record.repeats(), " times)") : "")
                  << "\n";
}

}  // namespace

absl::Status VerifyAudit(bool print_records, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("credentials"));
  const auto stub = AuditService::NewStub(channel);
  // The head is read first: the chain may grow while it is read, but must reach the head.
  CAPSTAN_ASSIGN_OR_RETURN(const AuditHead head, Call(stub.get(), &AuditService::Stub::GetAuditHead,
                                                      GetAuditHeadRequest(), Terms(invocation)));
  AuditChain chain;
  ListAuditRecordsRequest request;
  request.set_page_size(1000);
  do {
    CAPSTAN_ASSIGN_OR_RETURN(
        const auto page,
        Call(stub.get(), &AuditService::Stub::ListAuditRecords, request, Terms(invocation)));
    for (const std::string& stored : page.records()) {
      const absl::StatusOr<AuditRecord> record = chain.Append(stored);
      if (!record.ok()) return Failed(record.status().message());
      if (print_records) PrintRecord(*record, invocation);
      if (record->sequence() == head.sequence() && chain.hash() != head.hash()) {
        return Failed(absl::StrCat("record ", head.sequence(), " does not hash to the head"));
      }
    }
    request.set_start_sequence(page.next_sequence());
  } while (request.start_sequence() != 0);
  if (chain.sequence() < head.sequence()) {
    return Failed(absl::StrCat("the chain ends at record ", chain.sequence(),
                               ", but its head is record ", head.sequence()));
  }
  if (invocation.format == OutputFormat::kTable) {
    *invocation.out << "audit chain '" << WithoutControls(head.chain()) << "': " << chain.sequence()
                    << " records, whole and unchanged\n";
  }
  return absl::OkStatus();
}

absl::Status WhoAmI(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto identity, platform->Identity());
  const auto snapshot = identity->Get();
  const absl::Duration left = snapshot->not_after - invocation.clock->Read().wall;
  *invocation.out << identity->spiffe_id();
  if (invocation.format == OutputFormat::kTable) {
    *invocation.out << " (for another " << HumanDuration(left) << "; renewed when needed)";
  }
  *invocation.out << "\n";
  return absl::OkStatus();
}

}  // namespace capstan::cli
