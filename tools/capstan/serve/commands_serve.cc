#include "tools/capstan/serve/commands_serve.h"

#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "libs/process/main.h"
#include "services/cluster_manager/run.h"
#include "services/credentials/run.h"
#include "services/data_loader/run.h"
#include "services/executor/run.h"
#include "services/node_agent/run.h"
#include "services/scheduler/run.h"
#include "services/telemetry/run.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::serve {
namespace {

struct ServeOptions {
  std::string config_file;
  bool check_only = false;
  process::StartOptions start;
};

void AddPart(CLI::App* serve, cli::Act* act, const process::Program& program) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* part = serve->add_subcommand(program.name, program.purpose);
  part->add_option("--config", options->config_file,
                   absl::StrCat("its configuration (default: ", program.name,
                                "/config.yaml in the data folder, which `dev up` writes)"));
  part->add_flag("--check-config", options->check_only,
                 "say whether the configuration is right, and start nothing");
  part->add_option("--join-token-fd", options->start.join_token_fd,
                   "descriptor of a pipe with a join token");
  if (program.is_supervised) {
    part->add_option("--supervisor-fd", options->start.supervisor_fd, "socket to the supervisor");
    part->add_option("--supervised-path", options->start.supervised_paths,
                     "identity that the supervisor may ask a token for (repeatable)");
  }
  part->footer(absl::StrCat("Example: capstan serve ", program.name, " --check-config\n"));
  part->callback([=] {
    *act = [=](cli::Invocation& invocation) -> absl::Status {
      const std::string file = options->config_file.empty()
                                   ? dev::PartConfigFile(invocation.data_dir, program.name)
                                   : options->config_file;
      if (!options->check_only) {
        return process::RunProgram(program, file, options->start, invocation.clock);
      }
      const absl::Status read = process::ReadConfig(program, file).status();
      if (read.ok()) *invocation.out << file << ": OK\n";
      return read;
    };
  });
}

}  // namespace

void AddServeCommands(CLI::App& app, cli::Act* act) {
  CLI::App* serve = app.add_subcommand(
      "serve", "Run one part of the platform in the data folder (`dev up` runs them all)");
  serve->require_subcommand(1);
  for (const process::Program& program :
       {credentials::ThisProgram(), scheduler::ThisProgram(), telemetry::ThisProgram(),
        executor::ThisProgram(), node_agent::ThisProgram(), data_loader::ThisProgram(),
        cluster_manager::ThisProgram()}) {
    AddPart(serve, act, program);
  }
}

}  // namespace capstan::serve
