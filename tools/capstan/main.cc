// The `capstan` program: client, development platform and, under `serve`, every part of it.

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/types/optional.h"
#include "libs/lifecycle/process_end.h"
#include "libs/random/random.h"
#include "libs/time/system_clock.h"
#include "libs/trace/context.h"
#include "services/node_agent/shim/shim_command.h"
#include "tools/capstan/admin/commands_admin.h"
#include "tools/capstan/admin/commands_scheduler.h"
#include "tools/capstan/cli/command_exit.h"
#include "tools/capstan/cli/command_trace.h"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/output_format.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/commands_dev.h"
#include "tools/capstan/serve/commands_serve.h"

namespace {

// The words that chose the command, `job submit`.
std::string CommandOf(const CLI::App& app) {
  std::string words;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    words += (words.empty() ? "" : " ") + at->get_name();
  }
  return words;
}

// Everything but a shim.
int Run(int argc, char** argv) {
  using namespace capstan;  // NOLINT(google-build-using-namespace)
  SystemClock clock;
  // For names and request ids, not for secrets.
  std::random_device seed;
  Random random(uint64_t{seed()} << 32 | seed());

  cli::Invocation invocation;
  invocation.data_dir =
      cli::DefaultDataDir(getenv("CAPSTAN_DATA_DIR"), getenv("XDG_STATE_HOME"), getenv("HOME"));
  if (const char* project = getenv("CAPSTAN_PROJECT")) invocation.project = project;
  invocation.clock = &clock;
  invocation.random = &random;
  invocation.out = &std::cout;
  invocation.err = &std::cerr;
  const char* no_color = getenv("NO_COLOR");
  const char* term = getenv("TERM");
  invocation.out_terminal = cli::Terminal::Detect(STDOUT_FILENO, no_color, term);
  invocation.err_terminal = cli::Terminal::Detect(STDERR_FILENO, no_color, term);

  CLI::App app("Capstan runs training and research jobs on a fleet of clusters.", "capstan");
  cli::Act act;
  cli::AddGlobalOptions(app, &invocation, &act);
  cli::AddJobCommands(app, &act);
  cli::AddFleetCommands(app, &act);
  cli::AddDataCommands(app, &act);
  cli::AddSubscriptionCommands(app, &act);
  cli::AddProjectCommands(app, &act);
  cli::AddAccessCommands(app, &act);
  admin::AddAdminCommands(app, &act);
  admin::AddSchedulerCommands(app, &act);
  dev::AddDevCommands(app, &act);
  serve::AddServeCommands(app, &act);
  cli::AddShellCommands(app, &act);
  if (argc > 2 && std::string(argv[1]) == "__complete") {
    cli::PrintCompletion(app, std::vector<std::string>(argv + 3, argv + argc), invocation);
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    // CLI11 says what lacks, not which word it did not know.
    const std::vector<std::string> words = app.remaining(/*recurse=*/true);
    if (!words.empty()) std::cerr << "unknown command: " << words.front() << "\n";
    return app.exit(error) == 0 ? 0 : static_cast<int>(cli::ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(cli::ExitCode::kUsage);
  }
  absl::Status status = cli::LoadColumnsFile(&invocation.output);
  if (status.ok()) {
    // Processes of a platform, and those that start them, have traces of their own.
    absl::optional<cli::CommandTrace> command_trace;
    if (!app.got_subcommand("dev") && !app.got_subcommand("serve")) {
      command_trace.emplace(CommandOf(app), getenv(trace::kTraceparentVariable), invocation);
    }
    status = act(invocation);
    if (command_trace.has_value()) command_trace->End(status);
  }
  if (status.ok() && !std::cout.flush()) {
    status =
        absl::ResourceExhaustedError("standard output takes no more: not all of it was written");
  }
  if (const auto code = cli::CommandExitCode(status)) return *code;
  if (!status.ok()) std::cerr << cli::DescribeError(status);
  return static_cast<int>(cli::ExitCodeOf(status));
}

}  // namespace

int main(int argc, char** argv) {
  // A shim owns one Task and must have one thread: nothing else of this program may begin.
  if (argc > 1 && std::string(argv[1]) == "shim") {
    const capstan::SystemClock clock;
    return capstan::node_agent::RunShimCommand(std::vector<std::string>(argv + 2, argv + argc),
                                               clock);
  }
  capstan::lifecycle::ReportCrashes(argv[0]);
  capstan::lifecycle::ForbidCores();
  capstan::lifecycle::EndProcess(Run(argc, argv));
}
