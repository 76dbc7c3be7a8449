#include <memory>

#include "CLI/CLI.hpp"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/fleet_commands.h"

namespace capstan::cli {

void AddFleetCommands(CLI::App& app, Act* act) {
  CLI::App* node = app.add_subcommand("node", "Show and cordon Nodes");
  node->require_subcommand(1);
  node->alias("nodes");
  auto list_options = std::make_shared<ListNodesOptions>();
  CLI::App* list = node->add_subcommand("list", "List Nodes: state, room and limitations");
  list->add_option("--cluster", list_options->cluster, "only of this Cluster");
  list->add_flag("--watch,-w", list_options->watch, "show all, then each change");
  list->footer("Examples:\n  capstan node list\n  capstan node list --watch\n");
  list->callback(
      [=] { *act = [=](Invocation& invocation) { return ListNodes(*list_options, invocation); }; });

  auto name = std::make_shared<std::string>();
  auto reason = std::make_shared<std::string>();
  CLI::App* cordon = node->add_subcommand("cordon", "Let a Node take no new work");
  cordon->add_option("node", *name, "id in the Cluster `local`, {c}/{n}, or the whole name")
      ->required();
  cordon->add_option("--reason", *reason, "why, for people");
  cordon->footer("Examples:\n  capstan node cordon node-0 --reason 'new disk'\n");
  cordon->callback([=] {
    *act = [=](Invocation& invocation) { return CordonNode(*name, *reason, invocation); };
  });
  CLI::App* uncordon = node->add_subcommand("uncordon", "Remove your own cordon");
  uncordon->add_option("node", *name, "as for cordon")->required();
  uncordon->footer("Examples:\n  capstan node uncordon node-0\n");
  uncordon->callback(
      [=] { *act = [=](Invocation& invocation) { return UncordonNode(*name, invocation); }; });

  CLI::App* queue = app.add_subcommand("queue", "Create and list Queues");
  queue->require_subcommand(1);
  queue->alias("queues");
  auto queue_options = std::make_shared<CreateQueueOptions>();
  CLI::App* create = queue->add_subcommand("create", "Create a Queue");
  create->add_option("id", queue_options->id, "id of the Queue")->required();
  create->add_option("--weight", queue_options->weight,
                     "part among Queues of one parent; default 100");
  create->add_option("--allow-project", queue_options->projects,
                     "project that may use it (repeatable); default all");
  create->add_option("--parent", queue_options->parent, "Queue above it; default none");
  create->add_option("--guarantee", queue_options->guarantees,
                     "what it has whenever it asks, e.g. cpu=64, memory=1Ti, nvidia.com/h100=8 "
                     "(repeatable)");
  create->add_option(
      "--borrowing-limit", queue_options->borrowing_limits,
      "what it may use above that, or unlimited (repeatable); default as its parent");
  create->add_option("--lending-limit", queue_options->lending_limits,
                     "how much of it others may use while it is idle (repeatable); default as its "
                     "parent");
  create->footer(
      "Examples:\n"
      "  capstan queue create research --weight 300 --guarantee nvidia.com/h100=64\n"
      "  capstan queue create vision --parent research --borrowing-limit nvidia.com/h100=8\n");
  create->callback([=] {
    *act = [=](Invocation& invocation) { return CreateQueue(*queue_options, invocation); };
  });
  queue->add_subcommand("list", "List Queues")
      ->footer("Examples:\n  capstan queue list\n")
      ->callback([=] { *act = ListQueues; });

  CLI::App* cluster = app.add_subcommand("cluster", "Show Clusters and the health of their Nodes");
  cluster->require_subcommand(1);
  cluster->alias("clusters");
  cluster->add_subcommand("list", "List Clusters")
      ->footer("Examples:\n  capstan cluster list\n")
      ->callback([=] { *act = ListClusters; });
}

}  // namespace capstan::cli
