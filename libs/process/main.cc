#include "libs/process/main.h"

#include <iostream>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/config/locate.h"
#include "libs/config/proto_reader.h"
#include "libs/lifecycle/process_end.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/system_clock.h"

namespace capstan::process {
namespace {

// As `capstan` itself ends; see `capstan help exit-codes`.
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInvalidInput = 3;
constexpr int kNeedsIdentity = 77;

int Report(const absl::Status& status, int code) {
  std::cerr << "error: " << std::string(status.message()) << std::endl;
  return code;
}

}  // namespace

absl::StatusOr<std::unique_ptr<google::protobuf::Message>> ReadConfig(const Program& program,
                                                                      const std::string& file) {
  std::unique_ptr<google::protobuf::Message> config = program.make();
  config::SourceMap places;
  CAPSTAN_RETURN_IF_ERROR(config::ReadProtoFile(file, config.get(), &places));
  CAPSTAN_RETURN_IF_ERROR(config::Locate(program.check(*config), places, file));
  return config;
}

absl::Status RunProgram(const Program& program, const std::string& file, StartOptions options,
                        const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto config, ReadConfig(program, file));
  options.reload = [&]() -> absl::StatusOr<config::v1::Process> {
    CAPSTAN_ASSIGN_OR_RETURN(const auto again, ReadConfig(program, file));
    return program.process_of(*again);
  };
  return program.run(*config, options, clock);
}

namespace {

int ParseAndRun(int argc, char** argv, const Program& program) {
  CLI::App app(program.purpose, absl::StrCat(program.name, "_main"));
  app.footer(absl::StrCat("Example: ", program.name, "_main --config /etc/capstan/", program.name,
                          ".yaml --check-config"));
  std::string file;
  bool check_only = false;
  StartOptions options;
  app.add_option("--config", file,
                 absl::StrCat("YAML or JSON; its fields are in proto/capstan/config/v1/",
                              program.name, ".proto"))
      ->required();
  app.add_flag("--check-config", check_only, "say whether the file is right, and start nothing");
  app.add_option("--join-token-fd", options.join_token_fd,
                 "descriptor of a pipe with a join token");
  if (program.is_supervised) {
    app.add_option("--supervisor-fd", options.supervisor_fd, "socket to the supervisor");
    app.add_option("--supervised-path", options.supervised_paths,
                   "identity that the supervisor may ask a token for (repeatable)");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }

  const absl::Status read = ReadConfig(program, file).status();
  if (!read.ok()) return Report(read, kInvalidInput);
  if (check_only) {
    std::cout << file << ": OK" << std::endl;
    return 0;
  }
  const SystemClock clock;
  const absl::Status ran = RunProgram(program, file, std::move(options), &clock);
  if (ran.ok()) return 0;
  return Report(ran, status::Reason(ran) == "NO_IDENTITY" ? kNeedsIdentity : kFailed);
}

}  // namespace

void Main(int argc, char** argv, const Program& program) {
  lifecycle::ReportCrashes(argv[0]);
  lifecycle::ForbidCores();
  lifecycle::EndProcess(ParseAndRun(argc, argv, program));
}

}  // namespace capstan::process
