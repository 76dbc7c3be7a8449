#include "tools/capstan/dev/commands_dev.h"

#include <memory>

#include "CLI/CLI.hpp"
#include "tools/capstan/dev/demo.h"
#include "tools/capstan/dev/dev_commands.h"

namespace capstan::dev {

void AddDevCommands(CLI::App& app, cli::Act* act) {
  CLI::App* dev = app.add_subcommand("dev", "Run a whole platform on this machine");
  dev->require_subcommand(1);

  auto up_options = std::make_shared<UpOptions>();
  CLI::App* up = dev->add_subcommand("up", "Start it; Ctrl-C stops it");
  up->add_flag("--detach,-d", up_options->detach, "return once it is ready, leave it running");
  up->add_option("--config", up_options->config_file, "settings to use from now on (YAML)");
  up->add_option("--split", up_options->programs,
                 "folder of the services' own programs, `<service>/<service>_main`, to run instead "
                 "of `capstan serve`")
      ->check(CLI::ExistingDirectory);
  up->footer(
      "Examples:\n"
      "  capstan dev up\n"
      "  capstan dev up --split bazel-bin/services\n"
      "  capstan dev up --detach && capstan dev status\n");
  up->callback(
      [=] { *act = [=](cli::Invocation& invocation) { return DevUp(*up_options, invocation); }; });

  auto down_options = std::make_shared<DownOptions>();
  CLI::App* down = dev->add_subcommand("down", "Stop it: first the Tasks, with their grace");
  down->add_flag("--keep-tasks", down_options->keep_tasks,
                 "leave Tasks running; the next `dev up` adopts them");
  down->footer("Examples:\n  capstan dev down\n  capstan dev down --keep-tasks\n");
  down->callback([=] {
    *act = [=](cli::Invocation& invocation) { return DevDown(*down_options, invocation); };
  });

  auto demo_options = std::make_shared<DemoOptions>();
  CLI::App* demo =
      dev->add_subcommand("demo", "Train the digits over a gang, from bucket to model");
  demo->add_flag("--keep", demo_options->keep, "leave the platform running");
  demo->add_option("--example", demo_options->example, "folder of the example");
  demo->add_option("--python", demo_options->python, "interpreter of the example's own scripts")
      ->capture_default_str();
  demo->footer("Examples:\n  capstan dev demo\n  capstan dev demo --keep && capstan job list\n");
  demo->callback([=] {
    *act = [=](cli::Invocation& invocation) { return RunDemo(*demo_options, invocation); };
  });

  CLI::App* status = dev->add_subcommand("status", "Show its parts");
  status->footer(
      "Exits with 0 if all parts are ready, else with 1.\nExamples:\n  capstan dev status\n");
  status->callback([=] { *act = DevStatus; });
}

}  // namespace capstan::dev
