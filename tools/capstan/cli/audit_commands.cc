#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/audit_head.pb.h"
#include "proto/capstan/credentials/v1/audit_service.grpc.pb.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "tools/capstan/cli/audit_chain.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/project_commands.h"
#include "tools/capstan/cli/signed_heads.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using credentials::v1::AuditHead;
using credentials::v1::AuditHeadStatement;
using credentials::v1::AuditService;
using credentials::v1::GetAuditHeadRequest;
using credentials::v1::ListAuditRecordsRequest;
using event::v1::AuditRecord;

void PrintRecord(const AuditRecord& record, Invocation& invocation) {
  if (invocation.output.format != OutputFormat::kTable) {
    *invocation.out << RenderChange(invocation, record) << "\n";
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

// Other parts' heads have their own SPIFFE ids, whatever they call their chains.
bool IsOfCredentials(const AuditHeadStatement& head) {
  return head.principal() == absl::StrCat("spiffe://", head.trust_domain(), "/svc/credentials");
}

std::string SignTime(const AuditHeadStatement& head) {
  return absl::FormatTime(absl::RFC3339_sec, ToTime(head.sign_time()), absl::UTCTimeZone());
}

}  // namespace

absl::Status VerifyAudit(const VerifyOptions& options, Invocation& invocation) {
  // What the chain must reach is read first: it may grow while it is read.
  CAPSTAN_ASSIGN_OR_RETURN(const SignedHeads from,
                           ReadHeads(options.heads, options.trust_bundle, invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<AuditService>(invocation, "credentials"));
  CAPSTAN_ASSIGN_OR_RETURN(const AuditHead head,
                           Call(connection.stub.get(), &AuditService::Stub::GetAuditHead,
                                GetAuditHeadRequest(), Terms(invocation)));
  AuditChain chain;
  if (head.sequence() > 0) chain.Expect(head.sequence(), head.hash(), "its head");
  AuditHeadStatement newest;
  for (const AuditHeadStatement& signed_head : from.heads) {
    if (!IsOfCredentials(signed_head)) continue;
    const std::string whose = absl::StrCat("the head signed at ", SignTime(signed_head));
    chain.Expect(1, signed_head.first_hash(), whose);
    chain.Expect(signed_head.sequence(), signed_head.hash(), whose);
    if (signed_head.sequence() > newest.sequence()) newest = signed_head;
  }
  if (newest.sequence() == 0) {
    return Failed("there is no signed head of credentials' own chain");
  }
  ListAuditRecordsRequest request;
  request.set_page_size(1000);
  do {
    CAPSTAN_ASSIGN_OR_RETURN(
        const auto page, Call(connection.stub.get(), &AuditService::Stub::ListAuditRecords, request,
                              Terms(invocation)));
    for (const std::string& stored : page.records()) {
      const absl::StatusOr<AuditRecord> record = chain.Append(stored);
      if (!record.ok()) return Failed(record.status().message());
      if (options.print_records) PrintRecord(*record, invocation);
    }
    request.set_start_sequence(page.next_sequence());
  } while (request.start_sequence() != 0);
  const absl::Status reached = chain.End();
  if (!reached.ok()) return Failed(reached.message());
  if (invocation.output.format == OutputFormat::kTable) {
    *invocation.out << "audit chain '" << WithoutControls(head.chain()) << "': " << chain.sequence()
                    << " records, whole and unchanged; record " << newest.sequence()
                    << " was signed at " << SignTime(newest) << "\n";
  }
  return absl::OkStatus();
}

absl::Status ListAudit(const ListAuditOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<AuditService>(invocation, "credentials"));
  ListAuditRecordsRequest request;
  request.set_start_sequence(options.from);
  if (options.from == 0) {
    CAPSTAN_ASSIGN_OR_RETURN(const AuditHead head,
                             Call(connection.stub.get(), &AuditService::Stub::GetAuditHead,
                                  GetAuditHeadRequest(), Terms(invocation)));
    request.set_start_sequence(std::max<int64_t>(1, head.sequence() - options.limit + 1));
  }
  std::vector<AuditRecord> all;
  do {
    request.set_page_size(static_cast<int32_t>(
        std::min<int64_t>(1000, options.limit - static_cast<int64_t>(all.size()))));
    CAPSTAN_ASSIGN_OR_RETURN(
        const auto page, Call(connection.stub.get(), &AuditService::Stub::ListAuditRecords, request,
                              Terms(invocation)));
    for (const std::string& stored : page.records()) {
      if (!all.emplace_back().ParseFromString(stored)) {
        return Failed("a record cannot be read; see `capstan audit verify`");
      }
    }
    request.set_start_sequence(page.next_sequence());
  } while (request.start_sequence() != 0 && static_cast<int64_t>(all.size()) < options.limit);
  return PrintList<AuditRecord>(
      invocation, "audit_records", all,
      {{"SEQ", [](const AuditRecord& r) { return absl::StrCat(r.sequence()); }},
       {"TIME",
        [](const AuditRecord& r) {
          return absl::FormatTime(absl::RFC3339_sec, ToTime(r.record_time()), absl::UTCTimeZone());
        }},
       {"OUTCOME",
        [](const AuditRecord& r) {
          return r.outcome_code() == 0 ? TextTable::Cell("ok", Colour::kGreen)
                                       : TextTable::Cell("refused", Colour::kRed);
        }},
       {"PRINCIPAL", [](const AuditRecord& r) { return r.principal(); }},
       {"ACT", [](const AuditRecord& r) { return r.act(); }},
       {"RESOURCE", [](const AuditRecord& r) { return r.resource(); }},
       {"REPEATS", [](const AuditRecord& r) { return absl::StrCat(r.repeats()); }, /*wide=*/true},
       {"MESSAGE", [](const AuditRecord& r) { return r.message(); }, /*wide=*/true}});
}

absl::Status ShowAuditHead(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<AuditService>(invocation, "credentials"));
  CAPSTAN_ASSIGN_OR_RETURN(const AuditHead head,
                           Call(connection.stub.get(), &AuditService::Stub::GetAuditHead,
                                GetAuditHeadRequest(), Terms(invocation)));
  return PrintResource<AuditHead>(invocation, head, [](const AuditHead& shown) {
    return absl::StrCat("record ", shown.sequence(), " of chain '", WithoutControls(shown.chain()),
                        "' hashes to ", absl::BytesToHexString(absl::string_view(shown.hash())),
                        "\n");
  });
}

}  // namespace capstan::cli
