#include <memory>

#include "CLI/CLI.hpp"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/data_commands.h"

namespace capstan::cli {

void AddDataCommands(CLI::App& app, Act* act) {
  CLI::App* dataset = app.add_subcommand("dataset", "Create and list Datasets");
  dataset->require_subcommand(1);
  dataset->alias("datasets");
  auto options = std::make_shared<CreateDatasetOptions>();
  CLI::App* create = dataset->add_subcommand("create", "Create a Dataset");
  create->add_option("id", options->id, "id of the Dataset")->required();
  create->add_option("--source", options->source, "file:///…/ or a folder here")->required();
  create->add_option("--object", options->objects,
                     "object wanted, relative to the source (repeatable); default all");
  create->footer("Examples:\n  capstan dataset create digits --source ./bucket\n");
  create->callback(
      [=] { *act = [=](Invocation& invocation) { return CreateDataset(*options, invocation); }; });
  dataset->add_subcommand("list", "List Datasets")
      ->footer("Examples:\n  capstan dataset list\n  capstan dataset list -o json\n")
      ->callback([=] { *act = ListDatasets; });

  CLI::App* load = app.add_subcommand("load", "Show DataLoads and their progress");
  load->require_subcommand(1);
  load->alias("loads");
  load->add_subcommand("list", "List DataLoads, newest first")
      ->footer("Examples:\n  capstan load list\n")
      ->callback([=] { *act = ListLoads; });
  auto name = std::make_shared<std::string>();
  auto watch = std::make_shared<bool>(false);
  CLI::App* get = load->add_subcommand("get", "Show one DataLoad");
  get->add_option("load", *name, "id, or projects/{p}/dataLoads/{l}")->required();
  get->add_flag("--watch,-w", *watch, "until it has ended");
  get->footer("Examples:\n  capstan load get 7f3c --watch\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetLoad(*name, *watch, invocation); }; });
}

}  // namespace capstan::cli
