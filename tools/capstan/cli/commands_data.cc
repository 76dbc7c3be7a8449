#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/data_commands.h"
#include "tools/capstan/cli/data_where.h"
#include "tools/capstan/cli/job_submit.h"

namespace capstan::cli {

namespace {

void AddBundleCommands(CLI::App& app, Act* act) {
  CLI::App* bundle = app.add_subcommand("bundle", "Upload code for Jobs, and show what is there");
  bundle->require_subcommand(1);
  bundle->alias("bundles");
  auto folder = std::make_shared<std::string>();
  CLI::App* upload =
      bundle->add_subcommand("upload", "Upload a folder; a Job names it by its digest");
  upload->add_option("folder", *folder, "the folder")->type_name("DIR")->required();
  upload->footer(
      "Examples:\n"
      "  capstan bundle upload ./code\n"
      "  DIGEST=$(capstan bundle upload ./code -o jsonpath={.digest})\n");
  upload->callback([=] {
    *act = [=](Invocation& invocation) { return UploadBundleFolder(*folder, invocation); };
  });
  auto name = std::make_shared<std::string>();
  CLI::App* get = bundle->add_subcommand("get", "Show one Bundle");
  get->alias("describe");
  get->add_option("bundle", *name, "sha256:…, or projects/{p}/bundles/{hex}")
      ->type_name("BUNDLE")
      ->required();
  get->footer(
      "Examples:\n"
      "  capstan bundle get \"$(capstan bundle upload ./code -o jsonpath={.digest})\"\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetBundle(*name, invocation); }; });
}

}  // namespace

void AddDataCommands(CLI::App& app, Act* act) {
  CLI::App* dataset = app.add_subcommand("dataset", "Create and show Datasets");
  dataset->require_subcommand(1);
  dataset->alias("datasets");
  auto options = std::make_shared<CreateDatasetOptions>();
  CLI::App* create = dataset->add_subcommand("create", "Create a Dataset");
  create->add_option("id", options->id, "id of the Dataset")->required();
  create
      ->add_option("--source", options->source,
                   "file:///…/, https://… (an object, a folder/ or a list.index) or a folder here")
      ->type_name("DIR")
      ->required();
  create->add_option("--object", options->objects,
                     "object wanted, relative to the source (repeatable); default all");
  create->footer(
      "Examples:\n  capstan dataset create digits --source ./bucket\n"
      "  capstan dataset create corpus --source https://data.example.com/corpus.index\n");
  create->callback(
      [=] { *act = [=](Invocation& invocation) { return CreateDataset(*options, invocation); }; });
  dataset->add_subcommand("list", "List Datasets")
      ->footer("Examples:\n  capstan dataset list\n  capstan dataset list -o json\n")
      ->callback([=] { *act = ListDatasets; });
  auto dataset_name = std::make_shared<std::string>();
  CLI::App* get_dataset = dataset->add_subcommand("get", "Show one Dataset");
  get_dataset->alias("describe");
  get_dataset->add_option("dataset", *dataset_name, "id, or projects/{p}/datasets/{d}")
      ->type_name("DATASET")
      ->required();
  get_dataset->footer("Examples:\n  capstan dataset get digits\n");
  get_dataset->callback([=] {
    *act = [=](Invocation& invocation) { return GetDataset(*dataset_name, invocation); };
  });
  auto where_name = std::make_shared<std::string>();
  auto where_version = std::make_shared<std::string>();
  CLI::App* where = dataset->add_subcommand(
      "where", "Show where a version is: Site and Nodes, how far it came, and who holds it");
  where
      ->add_option("dataset", *where_name,
                   "id, projects/{p}/datasets/{d}, or …/versions/{v}; default version the newest")
      ->type_name("DATASET")
      ->required();
  where->add_option("--version", *where_version, "id of a version")->type_name("VERSION");
  where->footer(
      "Examples:\n  capstan dataset where digits\n  capstan dataset where digits -o wide\n");
  where->callback([=] {
    *act = [=](Invocation& invocation) {
      return ShowVersionSites(*where_name, *where_version, invocation);
    };
  });

  CLI::App* load = app.add_subcommand("load", "Bring data to a Site, and show how it comes");
  load->require_subcommand(1);
  load->alias("loads");
  load->add_subcommand("list", "List DataLoads, newest first")
      ->footer("Examples:\n  capstan load list\n")
      ->callback([=] { *act = ListLoads; });
  auto name = std::make_shared<std::string>();
  auto watch = std::make_shared<bool>(false);
  CLI::App* get = load->add_subcommand("get", "Show one DataLoad");
  get->alias("describe");
  get->add_option("load", *name, "id, or projects/{p}/dataLoads/{l}")
      ->type_name("LOAD")
      ->required();
  get->add_flag("--watch,-w", *watch, "until it has ended");
  get->footer(
      "Examples:\n"
      "  LOAD=$(capstan load list --sort-by .create_time -o jsonpath='{.items[-1].name}')\n"
      "  capstan load get \"$LOAD\" --watch\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetLoad(*name, *watch, invocation); }; });

  auto start_options = std::make_shared<StartLoadOptions>();
  CLI::App* start =
      load->add_subcommand("start", "Have a Dataset brought to a Site before a Job needs it");
  start->add_option("dataset", start_options->dataset, "id, or projects/{p}/datasets/{d}")
      ->type_name("DATASET")
      ->required();
  start->add_option("--version", start_options->version, "id of a version; default the newest")
      ->type_name("VERSION");
  start->add_option("--cluster", start_options->cluster, "Cluster that must reach it; default any")
      ->type_name("CLUSTER");
  start->add_flag("--retry-failed", start_options->retry_failed, "start a failed one again");
  start->add_flag("--watch,-w", start_options->watch, "until it has ended");
  start->footer("Examples:\n  capstan load start digits --watch\n");
  start->callback([=] {
    *act = [=](Invocation& invocation) { return StartLoad(*start_options, invocation); };
  });

  AddBundleCommands(app, act);
}

}  // namespace capstan::cli
