#include "tools/testenv/gcs_server.h"

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"

namespace capstan::testenv {
namespace {

constexpr char kProgram[] = "fake_gcs_server";

}  // namespace

absl::StatusOr<std::unique_ptr<GcsServer>> GcsServer::Start() {
  CAPSTAN_ASSIGN_OR_RETURN(
      std::unique_ptr<PlannedServer> server,
      PlannedServer::Start({.server = "gcs", .ports = 1, .programs = {kProgram}}));
  return std::unique_ptr<GcsServer>(new GcsServer(std::move(server)));
}

absl::StatusOr<std::string> GcsServer::CreateBucket() {
  std::string name = absl::StrCat("test-bucket-", ++buckets_);
  CAPSTAN_RETURN_IF_ERROR(server_->RunTool({"gcs-bucket", endpoint(), project(), name}));
  return name;
}

void GcsServer::Kill() { server_->Kill(kProgram); }
void GcsServer::Stop() { server_->Stop(kProgram); }
void GcsServer::Continue() { server_->Continue(kProgram); }
absl::Status GcsServer::Restart() { return server_->Restart(kProgram); }

}  // namespace capstan::testenv
