#include "tools/testenv/azure_server.h"

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"

namespace capstan::testenv {
namespace {

constexpr char kProgram[] = "azurite";

}  // namespace

absl::StatusOr<std::unique_ptr<AzureServer>> AzureServer::Start() {
  CAPSTAN_ASSIGN_OR_RETURN(
      std::unique_ptr<PlannedServer> server,
      PlannedServer::Start({.server = "azure", .ports = 1, .programs = {kProgram}}));
  return std::unique_ptr<AzureServer>(new AzureServer(std::move(server)));
}

absl::StatusOr<std::string> AzureServer::CreateContainer() {
  std::string name = absl::StrCat("test-container-", ++containers_);
  CAPSTAN_RETURN_IF_ERROR(server_->RunTool({"container", connection_string_file(), name}));
  return name;
}

void AzureServer::Kill() { server_->Kill(kProgram); }
void AzureServer::Stop() { server_->Stop(kProgram); }
void AzureServer::Continue() { server_->Continue(kProgram); }
absl::Status AzureServer::Restart() { return server_->Restart(kProgram); }

}  // namespace capstan::testenv
