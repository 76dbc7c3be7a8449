#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "libs/resource/quantity.h"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/json_path.h"
#include "tools/capstan/cli/output_format.h"

namespace capstan::cli {
namespace {

constexpr char kTopics[] =
    "Topics:\n"
    "  capstan help output         what -o takes, with templates and columns\n"
    "  capstan help exit-codes     what the exit codes mean\n"
    "  capstan help environment    which variables are read\n";

constexpr char kEnvironment[] =
    "Environment:\n"
    "  CAPSTAN_DATA_DIR   folder of the platform, as --data-dir\n"
    "  CAPSTAN_PROJECT    project of bare names, as --project\n"
    "  TRACEPARENT        trace that the command and all it causes belongs to (W3C Trace\n"
    "                     Context), e.g. 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01;\n"
    "                     default: a new one\n"
    "  NO_COLOR           anything: no colour, also on terminals\n"
    "  XDG_STATE_HOME     the default data folder is capstan/dev below it\n";

constexpr char kOutput[] =
    "What -o takes:\n"
    "  table                  for people; the default\n"
    "  wide                   the same, with more columns\n"
    "  json, yaml             as the API has it, fields by their proto names\n"
    "  name                   whole names, one a line\n"
    "  custom-columns=HEADER:path,…\n"
    "  custom-columns-file=FILE    a line of headers, and below it one of paths\n"
    "  jsonpath=TEMPLATE\n"
    "\n"
    "Paths and templates are kubectl's. A list is an object, in which its resources are found as\n"
    "`items`; `job get` and the like give the resource itself.\n"
    "  {.items[*].name}       values, joined by a space\n"
    "  {range .items[*]}{.name}{\"\\t\"}{.state}{\"\\n\"}{end}\n"
    "  {.items[?(@.state==\"STATE_FAILED\")].name}     == != < <= > >= && || !\n"
    "  {.tasks[0].node} {.tasks[-1:].rank} {..pid} {.spec['queue','priority']}\n"
    "\n"
    "Examples:\n"
    "  capstan job list -o custom-columns=JOB:.name,QUEUE:.spec.queue\n"
    "  capstan job list -o jsonpath='{range .items[*]}{.name}{\"\\n\"}{end}'\n"
    "  capstan job list --sort-by .create_time --no-headers\n";

// As CLI11's checks want it: empty if all is well.
std::string ToWords(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

void AddGlobalOptions(CLI::App& app, Invocation* invocation, Act* act) {
  app.require_subcommand(1);
  // Options may follow the command: `capstan job list -o json`.
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Print the help of every command");
  app.add_option("--data-dir", invocation->data_dir, "folder of the platform")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--project,-p", invocation->project, "project of bare names")
      ->type_name("PROJECT")
      ->capture_default_str();
  app.add_option("--output,-o", "what to write; see `capstan help output`")
      ->type_name("FORMAT")
      ->default_str("table")
      ->check([invocation](const std::string& text) {
        return ToWords(ParseOutput(text, &invocation->output));
      });
  app.add_option("--sort-by", "order of a list, by a path such as .create_time")
      ->type_name("PATH")
      ->check([invocation](const std::string& text) {
        auto path = JsonPath::Parse(text);
        if (!path.ok()) return ToWords(path.status());
        invocation->output.sort_by = *std::move(path);
        return std::string();
      });
  app.add_flag_callback(
      "--no-headers", [invocation] { invocation->output.headers = false; },
      "tables without their first line");
  app.add_option("--time-out", "bound of each call, e.g. 30s")
      ->type_name("DURATION")
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
  help->add_option("topic", *topic, "output, exit-codes or environment")->type_name("TOPIC");
  help->footer("Examples:\n  capstan help output\n  capstan help exit-codes\n");
  help->callback([&app, act, topic] {
    *act = [&app, topic](Invocation& now) {
      if (*topic == "exit-codes") {
        *now.out << ExitCodeHelp();
      } else if (*topic == "output") {
        *now.out << kOutput;
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
