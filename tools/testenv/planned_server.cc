#include "tools/testenv/planned_server.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libs/status/status_macros.h"

namespace capstan::testenv {
namespace {

constexpr char kTool[] = "tools/testenv/testenv.py";
constexpr char kHomes[] = "tools/testenv/homes/";
// Of a program that is started from elsewhere than the runfiles' root, as benchmarks are.
constexpr char kRunfiles[] = ".runfiles/capstan/";
constexpr size_t kLogEndBytes = 4000;

std::string Runfile(const std::string& path) {
  const std::string here = std::filesystem::absolute(path).string();
  if (::access(here.c_str(), R_OK) == 0) return here;
  std::error_code error;
  return absl::StrCat(std::filesystem::read_symlink("/proc/self/exe", error).string(), kRunfiles,
                      path);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Where the user's cache has a program.
absl::StatusOr<std::string> Home(const std::string& program) {
  std::string home = ReadFile(Runfile(absl::StrCat(kHomes, program)));
  home = std::string(absl::StripSuffix(home, "\n"));
  if (home.empty()) {
    return absl::NotFoundError(absl::StrCat("no home of ", program,
                                            ": add //tools/testenv:", program,
                                            "_home to the test's data and run it by Bazel"));
  }
  if (!std::filesystem::exists(home)) {
    return absl::NotFoundError(
        absl::StrCat(home, " is not there any more; get it by\n  ./dev testenv build ", program));
  }
  return home;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlannedServer>> PlannedServer::Start(const Request& request) {
  std::unique_ptr<PlannedServer> server(new PlannedServer());
  CAPSTAN_RETURN_IF_ERROR(server->Prepare(request));
  std::set<int> stages;
  for (const nlohmann::json& process : server->plan_["processes"]) {
    stages.insert(process["stage"].get<int>());
  }
  for (const int stage : stages) {
    for (const nlohmann::json& process : server->plan_["processes"]) {
      if (process["stage"] == stage) CAPSTAN_RETURN_IF_ERROR(server->Begin(process));
    }
    CAPSTAN_RETURN_IF_ERROR(server->Wait({absl::StrCat("--stage=", stage)}));
  }
  return server;
}

absl::Status PlannedServer::Prepare(const Request& request) {
  const char* const temporary = std::getenv("TEST_TMPDIR");
  std::string folder =
      absl::StrCat(temporary == nullptr ? "/tmp" : temporary, "/", request.server, "-XXXXXX");
  if (::mkdtemp(folder.data()) == nullptr) return absl::ErrnoToStatus(errno, folder);
  folder_ = folder;
  std::vector<std::string> numbers;
  for (int i = 0; i < request.ports; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(LoopbackPort port, LoopbackPort::Take());
    numbers.push_back(absl::StrCat(port.number()));
    ports_.push_back(std::move(port));
  }
  std::vector<std::string> arguments = {"prepare", request.server, "--folder",
                                        folder_,   "--ports",      absl::StrJoin(numbers, ",")};
  for (const std::string& program : request.programs) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string home, Home(program));
    arguments.push_back(absl::StrCat("--program=", program, "=", home));
  }
  arguments.insert(arguments.end(), request.arguments.begin(), request.arguments.end());
  CAPSTAN_RETURN_IF_ERROR(RunTool(arguments));
  plan_ = nlohmann::json::parse(ReadFile(folder_ + "/plan.json"), nullptr, false);
  if (!plan_.is_object()) return absl::InternalError("testenv.py wrote a plan that is no JSON");
  return absl::OkStatus();
}

PlannedServer::~PlannedServer() {
  processes_.clear();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::string PlannedServer::Of(const char* field, absl::string_view name) const {
  return plan_.at(field).value(std::string(name), "");
}

absl::Status PlannedServer::Begin(const nlohmann::json& process) {
  const std::string name = process["name"].get<std::string>();
  std::vector<std::string> environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
                                          absl::StrCat("HOME=", folder_)};
  for (const auto& [key, value] : process["environment"].items()) {
    environment.push_back(absl::StrCat(key, "=", value.get<std::string>()));
  }
  CAPSTAN_ASSIGN_OR_RETURN(
      processes_[name],
      ServerProcess::Start(process["command"].get<std::vector<std::string>>(),
                           absl::StrCat(folder_, "/", name, ".log"), environment));
  return absl::OkStatus();
}

absl::Status PlannedServer::Restart(const std::string& process) {
  for (const nlohmann::json& one : plan_["processes"]) {
    if (one["name"] != process) continue;
    CAPSTAN_RETURN_IF_ERROR(Begin(one));
    return Wait({absl::StrCat("--process=", process)});
  }
  return absl::NotFoundError(absl::StrCat("no process ", process));
}

absl::Status PlannedServer::Wait(const std::vector<std::string>& which) const {
  std::vector<std::string> arguments = {"wait", folder_ + "/plan.json"};
  arguments.insert(arguments.end(), which.begin(), which.end());
  for (const auto& [name, process] : processes_) {
    arguments.push_back(absl::StrCat("--pid=", name, "=", process->pid()));
  }
  return RunTool(arguments);
}

absl::Status PlannedServer::RunTool(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {"python3", "-B", Runfile(kTool)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  // It says nothing unless it fails.
  const std::string output = folder_ + "/tool.log";
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, "python3");
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return absl::OkStatus();
  std::string said = ReadFile(output);
  for (const auto& [name, process] : processes_) {
    const std::string log = ReadFile(absl::StrCat(folder_, "/", name, ".log"));
    absl::StrAppend(&said, name, ".log ends:\n",
                    log.substr(log.size() - std::min(log.size(), kLogEndBytes)));
  }
  return absl::UnavailableError(said);
}

}  // namespace capstan::testenv
