#include "tools/testenv/s3_server.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/status_macros.h"

namespace capstan::testenv {

absl::StatusOr<std::unique_ptr<S3Server>> S3Server::Start(const Options& options) {
  CAPSTAN_ASSIGN_OR_RETURN(
      std::unique_ptr<PlannedServer> server,
      PlannedServer::Start({.server = "s3",
                            .ports = 1,
                            .programs = {options.server},
                            .arguments = {absl::StrCat("--server=", options.server)}}));
  std::unique_ptr<S3Server> s3(new S3Server(options.server, std::move(server)));
  CAPSTAN_RETURN_IF_ERROR(s3->ReadKeys());
  return s3;
}

absl::Status S3Server::ReadKeys() {
  std::ifstream file(credentials_file());
  for (std::string line; std::getline(file, line);) {
    absl::string_view value = line;
    if (absl::ConsumePrefix(&value, "aws_access_key_id = ")) access_key_ = std::string(value);
    if (absl::ConsumePrefix(&value, "aws_secret_access_key = ")) secret_key_ = std::string(value);
  }
  if (access_key_.empty() || secret_key_.empty()) {
    return absl::InternalError(absl::StrCat(credentials_file(), " has no keys"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> S3Server::CreateBucket() {
  std::string name = absl::StrCat("test-bucket-", ++buckets_);
  CAPSTAN_RETURN_IF_ERROR(server_->RunTool({"bucket", endpoint(), credentials_file(), name}));
  return name;
}

}  // namespace capstan::testenv
