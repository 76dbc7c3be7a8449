#include "integration/kube_bench/client_process.h"

#include <cerrno>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/status_macros.h"

namespace capstan::kube::bench {

absl::StatusOr<std::unique_ptr<ClientProcess>> ClientProcess::Start(
    const std::string& program, const std::vector<std::string>& arguments) {
  std::string command = absl::StrCat("exec taskset -c $(($(nproc --all) - 1)) ", program, " ",
                                     absl::StrJoin(arguments, " "));
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return absl::ErrnoToStatus(errno, command);
  return std::unique_ptr<ClientProcess>(new ClientProcess(std::move(command), output));
}

ClientProcess::~ClientProcess() { pclose(output_); }

absl::StatusOr<nlohmann::json> ClientProcess::NextLine() {
  char* line = nullptr;
  size_t size = 0;
  const ssize_t read = getline(&line, &size, output_);
  nlohmann::json told;
  if (read > 0) told = nlohmann::json::parse(line, line + read, nullptr, false);
  std::free(line);
  if (!told.is_object()) return absl::InternalError(absl::StrCat(command_, " ended early"));
  return told;
}

absl::StatusOr<nlohmann::json> Measure(const std::string& program,
                                       const std::vector<std::string>& arguments) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto client, ClientProcess::Start(program, arguments));
  CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json told, client->NextLine());
  const bool theirs = program.find("client_go") != std::string::npos;
  std::fprintf(stderr, "%s %s %s\n", arguments[0].c_str(), theirs ? "client_go" : "capstan  ",
               told.dump().c_str());
  return told;
}

Compared Compare(const Runs& runs, const std::string& field) {
  Compared compared;
  for (const auto& [ours, theirs] : runs) {
    compared.ours.push_back(ours[field].get<double>());
    compared.theirs.push_back(theirs[field].get<double>());
    compared.ratios.push_back(compared.ours.back() / compared.theirs.back());
  }
  return compared;
}

}  // namespace capstan::kube::bench
