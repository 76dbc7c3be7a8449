#include <map>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "libs/resource/quantity.h"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/exit_code.h"

namespace capstan::cli {
namespace {

constexpr char kTopics[] =
    "Topics:\n"
    "  capstan help exit-codes     what the exit codes mean\n"
    "  capstan help environment    which variables are read\n";

constexpr char kEnvironment[] =
    "Environment:\n"
    "  CAPSTAN_DATA_DIR   folder of the platform, as --data-dir\n"
    "  CAPSTAN_PROJECT    project of bare names, as --project\n"
    "  NO_COLOR           anything: no colour, also on terminals\n"
    "  XDG_STATE_HOME     the default data folder is capstan/dev below it\n";

}  // namespace

void AddGlobalOptions(CLI::App& app, Invocation* invocation, Act* act) {
  app.require_subcommand(1);
  // Options may follow the command: `capstan job list -o json`.
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Print the help of every command");
  app.add_option("--data-dir", invocation->data_dir, "folder of the platform")
      ->capture_default_str();
  app.add_option("--project,-p", invocation->project, "project of bare names")
      ->capture_default_str();
  const std::map<std::string, OutputFormat> formats = {{"table", OutputFormat::kTable},
                                                       {"json", OutputFormat::kJson},
                                                       {"yaml", OutputFormat::kYaml},
                                                       {"name", OutputFormat::kName}};
  app.add_option("--output,-o", invocation->format, "table, json, yaml or name")
      ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description(""));
  app.add_option("--time-out", "bound of each call, e.g. 30s")
      ->default_str("15s")
      ->check([invocation](const std::string& text) {
        const auto parsed = resource::ParseDuration(text);
        if (!parsed.ok()) return std::string(parsed.status().message());
        invocation->time_out = *parsed;
        return std::string();
      });
  app.footer(kTopics);

  CLI::App* help = app.add_subcommand("help", "Print this help, or one on a topic");
  auto topic = std::make_shared<std::string>();
  help->add_option("topic", *topic, "exit-codes or environment");
  help->callback([&app, act, topic] {
    *act = [&app, topic](Invocation& now) {
      if (*topic == "exit-codes") {
        *now.out << ExitCodeHelp();
      } else if (*topic == "environment") {
        *now.out << kEnvironment;
      } else {
        *now.out << app.help("", CLI::AppFormatMode::Normal);
      }
      return absl::OkStatus();
    };
  });
}

}  // namespace capstan::cli
