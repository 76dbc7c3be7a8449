#include "services/credentials/testing/server_harness.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "libs/digest/sha256.h"
#include "libs/rpc/credentials.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/audit_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"

namespace capstan::credentials {

ServerHarness::ServerHarness(std::string folder)
    : folder_(std::move(folder)), log_("credentials", &clock_, &sink_, log::Level::kDebug) {
  config_.data_folder = folder_;
  config_.person_socket = folder_ + "/person.sock";
  config_.admin_uid = geteuid();
}

ServerHarness::~ServerHarness() { Stop(); }

absl::Status ServerHarness::Start() {
  metrics_ = std::make_unique<metrics::Registry>("credentials");
  strand_ = std::make_unique<ThreadStrand>("credentials", &clock_);
  io_strand_ = std::make_unique<ThreadStrand>("credentials-io", &clock_);
  store_ = std::make_unique<store::MemoryStore>(strand_.get(), image_);
  CAPSTAN_ASSIGN_OR_RETURN(server_, Server::Create(config_, {.clock = &clock_,
                                                             .strand = strand_.get(),
                                                             .io_strand = io_strand_.get(),
                                                             .store = store_.get(),
                                                             .log = &log_,
                                                             .metrics = metrics_.get()}));
  return server_->Start();
}

void ServerHarness::Stop() {
  if (server_ != nullptr) server_->Drain(clock_.Read().boot + absl::Seconds(5));
  server_.reset();
  store_.reset();
  io_strand_.reset();
  strand_.reset();
}

std::string ServerHarness::address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

std::shared_ptr<grpc::Channel> ServerHarness::Dial(std::shared_ptr<const rpc::Identity> identity) {
  return rpc::Dial(address(), std::move(identity), &clock_, "/svc/credentials");
}

absl::StatusOr<v1::Svid> ServerHarness::Join(const std::string& token, const rpc::PrivateKey& key) {
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  const auto channel = rpc::Dial(absl::StrCat("127.0.0.1:", server_->join_port()),
                                 rpc::JoinChannelCredentials(parts.back(), &clock_));
  const auto stub = v1::JoinService::NewStub(channel);
  v1::JoinRequest request;
  request.set_token(token);
  CAPSTAN_ASSIGN_OR_RETURN(*request.mutable_certificate_request(),
                           rpc::MakeCertificateRequest(key));
  CAPSTAN_ASSIGN_OR_RETURN(const v1::JoinResponse response,
                           Call<v1::JoinResponse>(*stub, &v1::JoinService::Stub::Join, request));
  return response.svid();
}

absl::StatusOr<std::shared_ptr<rpc::Identity>> ServerHarness::JoinAs(const std::string& token) {
  CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::Generate());
  CAPSTAN_ASSIGN_OR_RETURN(const v1::Svid svid, Join(token, key));
  return Keep(svid, key);
}

absl::StatusOr<v1::Svid> ServerHarness::PersonSvid(const rpc::PrivateKey& key) {
  const auto channel = grpc::CreateChannel(absl::StrCat("unix:", config_.person_socket),
                                           grpc::InsecureChannelCredentials());
  const auto stub = v1::PersonService::NewStub(channel);
  v1::IssuePersonSvidRequest request;
  CAPSTAN_ASSIGN_OR_RETURN(*request.mutable_certificate_request(),
                           rpc::MakeCertificateRequest(key));
  return Call<v1::Svid>(*stub, &v1::PersonService::Stub::IssuePersonSvid, request);
}

absl::StatusOr<std::shared_ptr<rpc::Identity>> ServerHarness::Person() {
  CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::Generate());
  CAPSTAN_ASSIGN_OR_RETURN(const v1::Svid svid, PersonSvid(key));
  return Keep(svid, key);
}

absl::StatusOr<std::string> ServerHarness::MakeToken(std::shared_ptr<const rpc::Identity> person,
                                                     const std::string& path) {
  const auto stub = v1::JoinTokenService::NewStub(Dial(std::move(person)));
  v1::CreateJoinTokenRequest request;
  request.set_path(path);
  CAPSTAN_ASSIGN_OR_RETURN(
      const v1::JoinToken token,
      Call<v1::JoinToken>(*stub, &v1::JoinTokenService::Stub::CreateJoinToken, request));
  return token.token();
}

absl::StatusOr<std::shared_ptr<rpc::Identity>> ServerHarness::Keep(const v1::Svid& svid,
                                                                   const rpc::PrivateKey& key) {
  rpc::Svid kept;
  kept.key_pem = key.ToPem();
  kept.chain.assign(svid.certificate_chain().begin(), svid.certificate_chain().end());
  kept.bundle.assign(svid.bundle().roots().begin(), svid.bundle().roots().end());
  return rpc::Identity::Store(absl::StrCat(folder_, "/client-", ++identities_), std::move(kept));
}

absl::StatusOr<std::vector<event::v1::AuditRecord>> ServerHarness::Audit(
    std::shared_ptr<const rpc::Identity> person) {
  const auto stub = v1::AuditService::NewStub(Dial(std::move(person)));
  std::vector<event::v1::AuditRecord> records;
  std::string hash(32, '\0');
  v1::ListAuditRecordsRequest request;
  request.set_page_size(5);
  do {
    CAPSTAN_ASSIGN_OR_RETURN(const v1::ListAuditRecordsResponse page,
                             Call<v1::ListAuditRecordsResponse>(
                                 *stub, &v1::AuditService::Stub::ListAuditRecords, request));
    for (const std::string& bytes : page.records()) {
      event::v1::AuditRecord record;
      if (!record.ParseFromString(bytes) || record.previous_hash() != hash ||
          record.sequence() != static_cast<int64_t>(records.size()) + 1) {
        return absl::DataLossError("the audit chain is broken");
      }
      hash = Sha256::Of(bytes);
      records.push_back(std::move(record));
    }
    request.set_start_sequence(page.next_sequence());
  } while (request.start_sequence() != 0);
  CAPSTAN_ASSIGN_OR_RETURN(
      const v1::AuditHead head,
      Call<v1::AuditHead>(*stub, &v1::AuditService::Stub::GetAuditHead, v1::GetAuditHeadRequest()));
  // Records may have come between the two calls; never fewer.
  if (head.sequence() < static_cast<int64_t>(records.size()) ||
      (head.sequence() == static_cast<int64_t>(records.size()) && head.hash() != hash)) {
    return absl::DataLossError("the audit head is not the chain's");
  }
  return records;
}

std::string ServerHarness::Logs() const {
  std::string text;
  for (const log::Record& record : sink_.records()) {
    absl::StrAppend(&text, log::FormatRecord(record, log::Format::kJson), "\n");
  }
  return text;
}

std::string ServerHarness::Disk() {
  std::string text;
  store::RangeRequest all;
  all.key = "/";
  all.end = "0";
  all.limit = 10'000;
  absl::Notification over;
  store_->Range(all, [&](absl::StatusOr<store::RangeResult> found) {
    for (const store::KeyValue& kv : found->kvs) absl::StrAppend(&text, kv.key, kv.value, "\n");
    over.Notify();
  });
  over.WaitForNotification();
  return text;
}

absl::Status ServerHarness::WriteStore(store::TxnRequest txn) {
  absl::Status status;
  absl::Notification over;
  store_->Txn(std::move(txn), [&](const absl::StatusOr<store::TxnResult>& written) {
    status = written.status();
    over.Notify();
  });
  over.WaitForNotification();
  return status;
}

}  // namespace capstan::credentials
