#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "libs/resource/quantity.h"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/fleet_commands.h"
#include "tools/capstan/cli/maintenance_text.h"
#include "tools/capstan/cli/node_simulate.h"

namespace capstan::cli {

namespace {

constexpr char kNodeHelp[] = "id in the Cluster `local`, {c}/{n}, or the whole name";

// A command on one resource by name.
CLI::App* AddNamed(CLI::App& parent, const char* word, const char* help, const char* type,
                   const char* name_help, std::string* name) {
  CLI::App* command = parent.add_subcommand(word, help);
  command->add_option("name", *name, name_help)->type_name(type)->required();
  return command;
}

CLI::Option* AddDuration(CLI::App* command, const std::string& name, const std::string& help,
                         std::function<void(absl::Duration)> set) {
  return command->add_option(name, help)
      ->type_name("DURATION")
      ->check([set = std::move(set)](const std::string& text) {
        const auto parsed = resource::ParseDuration(text);
        if (!parsed.ok()) return std::string(parsed.status().message());
        set(*parsed);
        return std::string();
      });
}

void AddOrderCommands(CLI::App& node, Act* act) {
  CLI::App* order = node.add_subcommand(
      "order", "Say that Nodes were ordered, so that they are kept for the gang that waits");
  order->require_subcommand(1);
  order->alias("orders");
  auto options = std::make_shared<OrderOptions>();
  CLI::App* create = order->add_subcommand("create", "Nominate ordered Nodes to a gang");
  create->add_option("id", options->id, "id of the order: label its Nodes capstan.dev/order=ID")
      ->type_name("ORDER")
      ->required();
  create->add_option("--nodes", options->nodes, "how many were ordered")->required();
  create->add_option("--cluster", options->cluster, "of the Nodes; default local")
      ->type_name("CLUSTER");
  CLI::Option* job =
      create->add_option("--job", options->job, "Job that they are for")->type_name("JOB");
  create
      ->add_option("--class", options->demand_class,
                   "class of demand that they are for: `id` of `capstan node demand -o json`")
      ->type_name("CLASS")
      ->excludes(job);
  AddDuration(create, "--expires-in", "void after so long, at most 168h",
              [options](absl::Duration d) { options->expires_in = d; })
      ->required();
  AddDuration(create, "--expected-in",
              "when all are there: Jobs that are over by then may use the first meanwhile",
              [options](absl::Duration d) { options->expected_in = d; });
  create->add_option("--reason", options->reason, "why, for people");
  create->footer(
      "Examples:\n"
      "  capstan node order create more-h100 --nodes 8 --job train --expires-in 4h\n"
      "  capstan node order create spot-7 --nodes 8 --class 0123456789abcdef --expected-in 20m "
      "--expires-in 2h\n");
  create->callback(
      [=] { *act = [=](Invocation& invocation) { return CreateOrder(*options, invocation); }; });
  order->add_subcommand("list", "List orders, and how many of their Nodes have come")
      ->footer("Examples:\n  capstan node order list\n")
      ->callback([=] { *act = ListOrders; });
  auto name = std::make_shared<std::string>();
  CLI::App* get =
      AddNamed(*order, "get", "Show one order", "ORDER", "id, or capacityOrders/{o}", name.get());
  get->alias("describe");
  get->footer("Examples:\n  capstan node order get more-h100\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetOrder(*name, invocation); }; });
  CLI::App* remove = AddNamed(*order, "delete", "Void an order: its Nodes are kept for nobody",
                              "ORDER", "id, or capacityOrders/{o}", name.get());
  remove->footer("Examples:\n  capstan node order delete more-h100\n");
  remove->callback(
      [=] { *act = [=](Invocation& invocation) { return DeleteOrder(*name, invocation); }; });
}

void AddMaintenanceCommands(CLI::App& node, Act* act) {
  CLI::App* maintenance =
      node.add_subcommand("maintenance", "Keep Nodes free from a time on, for a time");
  maintenance->require_subcommand(1);
  auto options = std::make_shared<MaintenanceOptions>();
  CLI::App* create = maintenance->add_subcommand(
      "create", "Make a window: nothing is placed that would run into it by its time_limit");
  create->add_option("id", options->id, "id of the window")->type_name("ID")->required();
  create->add_option("--cluster", options->cluster, "of its Nodes; default local")
      ->type_name("CLUSTER");
  create->add_option("--node", options->nodes, "a Node (repeatable)")->type_name("NODE");
  create->add_option("--label", options->labels,
                     "Nodes that have this label, KEY=VALUE; of several, all (repeatable)");
  create->add_flag("--all-nodes", options->all_nodes, "all Nodes of the Cluster");
  create->add_option("--start", options->start,
                     "when it begins, 2026-03-01T22:00:00Z, or how long from now, 2h; default now");
  create->add_option("--end", options->end, "when it is over, likewise");
  AddDuration(create, "--for", "how long it lasts, instead of --end, e.g. 8h",
              [options](absl::Duration d) { options->length = d; });
  create->add_flag("--evict", options->evict,
                   "stop what runs there when it begins; its Jobs wait in their Queues again");
  create->add_option("--reason", options->reason, "why, for people");
  create->footer(
      "Examples:\n"
      "  capstan node maintenance create disks --node node-0 --start 2h --for 1h\n"
      "  capstan node maintenance create power --label capstan.dev/rack=r1 --evict --start 12h "
      "--for 8h --reason 'new power supply'\n");
  create->callback([=] {
    *act = [=](Invocation& invocation) { return CreateMaintenance(*options, invocation); };
  });
  auto cluster = std::make_shared<std::string>("-");
  CLI::App* list = maintenance->add_subcommand("list", "List windows that are not over");
  list->add_option("--cluster", *cluster, "only of this Cluster")->type_name("CLUSTER");
  list->footer("Examples:\n  capstan node maintenance list\n");
  list->callback([=] {
    *act = [=](Invocation& invocation) { return ListMaintenance(*cluster, invocation); };
  });
  constexpr char kHelp[] = "id in the Cluster `local`, {c}/{id}, or the whole name";
  auto name = std::make_shared<std::string>();
  CLI::App* get = AddNamed(*maintenance, "get", "Show one window", "WINDOW", kHelp, name.get());
  get->alias("describe");
  get->footer("Examples:\n  capstan node maintenance get disks\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetMaintenance(*name, invocation); }; });
  CLI::App* erase =
      AddNamed(*maintenance, "delete", "Call a window off, or end it", "WINDOW", kHelp, name.get());
  erase->footer("Examples:\n  capstan node maintenance delete disks\n");
  erase->callback(
      [=] { *act = [=](Invocation& invocation) { return DeleteMaintenance(*name, invocation); }; });
}

void AddSimulateCommand(CLI::App& node, Act* act) {
  auto options = std::make_shared<SimulateChangesOptions>();
  CLI::App* simulate = node.add_subcommand(
      "simulate", "Compare what would happen if Nodes came, went or were cordoned");
  simulate
      ->add_option("file", options->file, "file of at most 64 alternatives; - is standard input")
      ->type_name("FILE")
      ->required();
  simulate->add_flag("--on-leader", options->on_leader,
                     "ask the scheduler that leads, beside its own work, if no other answers");
  simulate->footer(
      "Nothing is stored, started or ended. Each alternative is judged by itself, all from the "
      "same\n"
      "stored state, and told as soon as it is known: of the Jobs that WAIT how many START because "
      "the\n"
      "Nodes change, how many lose Tasks (DISPLACED) and how many of those START AGAIN at once, "
      "and\n"
      "what becomes of its own JOBS. Schedulers that follow answer, with a configured part of one\n"
      "core. Needs the permission jobs.simulate.\n"
      "A file:\n"
      "  alternatives:\n"
      "    - name: ten-more\n"
      "      add: [{count: 10, like: node-0}]\n"
      "      jobs: [train.yaml]\n"
      "    - name: without-two\n"
      "      remove: [node-1, node-2]\n"
      "    - name: new-shape\n"
      "      cordon: [node-0]\n"
      "      add: [{count: 2, cluster: local, allocatable: {cpu: 64, memory: 512Gi}}]\n"
      "Examples:\n"
      "  capstan node simulate changes.yaml --on-leader\n"
      "  capstan node simulate changes.yaml --on-leader -o json\n");
  simulate->callback([=] {
    *act = [=](Invocation& invocation) { return SimulateChanges(*options, invocation); };
  });
}

void AddNodeCommands(CLI::App& app, Act* act) {
  CLI::App* node = app.add_subcommand("node", "Show and cordon Nodes");
  node->require_subcommand(1);
  node->alias("nodes");
  auto list_options = std::make_shared<ListNodesOptions>();
  CLI::App* list = node->add_subcommand("list", "List Nodes: state, room and limitations");
  list->add_option("--cluster", list_options->cluster, "only of this Cluster")
      ->type_name("CLUSTER");
  list->add_flag("--watch,-w", list_options->watch, "show all, then each change");
  list->footer("Examples:\n  capstan node list\n  capstan node list --watch\n");
  list->callback(
      [=] { *act = [=](Invocation& invocation) { return ListNodes(*list_options, invocation); }; });

  auto name = std::make_shared<std::string>();
  CLI::App* get = AddNamed(*node, "get", "Show one Node", "NODE", kNodeHelp, name.get());
  get->alias("describe");
  get->footer("Examples:\n  capstan node get node-0\n  capstan node get node-0 -o yaml\n");
  get->callback([=] { *act = [=](Invocation& invocation) { return GetNode(*name, invocation); }; });

  auto reason = std::make_shared<std::string>();
  CLI::App* cordon =
      AddNamed(*node, "cordon", "Let a Node take no new work", "NODE", kNodeHelp, name.get());
  cordon->add_option("--reason", *reason, "why, for people");
  cordon->footer("Examples:\n  capstan node cordon node-0 --reason 'new disk'\n");
  cordon->callback([=] {
    *act = [=](Invocation& invocation) { return CordonNode(*name, *reason, invocation); };
  });
  CLI::App* uncordon =
      AddNamed(*node, "uncordon", "Remove your own cordon", "NODE", kNodeHelp, name.get());
  uncordon->footer("Examples:\n  capstan node uncordon node-0\n");
  uncordon->callback(
      [=] { *act = [=](Invocation& invocation) { return UncordonNode(*name, invocation); }; });

  AddMaintenanceCommands(*node, act);

  auto demand_options = std::make_shared<ShowDemandOptions>();
  CLI::App* demand = node->add_subcommand(
      "demand", "Show what waiting gangs need of more Nodes, and how many Jobs no Node would help");
  demand->add_option("--cluster", demand_options->cluster, "only what may run in this Cluster")
      ->type_name("CLUSTER");
  demand->add_flag("--watch,-w", demand_options->watch, "show all, then all of it at each change");
  demand->footer(
      "Examples:\n  capstan node demand\n  capstan node demand -o json\n"
      "  capstan node demand --watch\n");
  demand->callback([=] {
    *act = [=](Invocation& invocation) { return ShowDemand(*demand_options, invocation); };
  });

  AddSimulateCommand(*node, act);
  AddOrderCommands(*node, act);
  node->add_subcommand("confirm-silence",
                       "Say that every silent Node and executor is really gone, where so many fell "
                       "silent that the scheduler suspects itself")
      ->footer("Examples:\n  capstan node confirm-silence\n")
      ->callback([=] { *act = ConfirmSilence; });
}

void AddQueueOptions(CLI::App& command, const std::shared_ptr<QueueOptions>& options) {
  command.add_option("id", options->id, "id of the Queue")->type_name("QUEUE")->required();
  command.add_option("--weight", options->weight, "part among Queues of one parent; default 100");
  command
      .add_option("--allow-project", options->projects,
                  "project that may use it (repeatable); default all")
      ->type_name("PROJECT");
  command.add_option("--guarantee", options->guarantees,
                     "what it has whenever it asks, e.g. cpu=64, memory=1Ti, nvidia.com/h100=8 "
                     "(repeatable)");
  command.add_option(
      "--borrowing-limit", options->borrowing_limits,
      "what it may use above that, or unlimited (repeatable); default as its parent");
  command.add_option("--lending-limit", options->lending_limits,
                     "how much of it others may use while it is idle (repeatable); default as its "
                     "parent");
  AddDuration(&command, "--min-runtime",
              "how long a Job runs before it may be ended for another, e.g. 10m; default as "
              "its parent",
              [options](absl::Duration d) { options->min_runtime = d; });
  AddDuration(&command, "--usage-half-life",
              "half-life of the past use that counts when its turn is found, 1m to 8784h, e.g. "
              "168h; 0: none counts; default as its parent",
              [options](absl::Duration d) { options->usage_half_life = d; });
  command
      .add_option("--submit-rate", options->submit_rate,
                  "how fast Jobs are taken here and below, e.g. 100/1m, or 100/1m/10 with at most "
                  "10 at once; none: as fast as they come")
      ->type_name("RATE");
  command
      .add_option("--start-rate", options->start_rate,
                  "how fast Jobs are started here and below; others wait")
      ->type_name("RATE");
  command
      .add_option("--disruption-budget", options->disruption_budget,
                  "how often a Job may be ended for another one, e.g. 3/24h; none: as often as it "
                  "comes; default as its parent")
      ->type_name("BUDGET");
  command.add_flag_callback(
      "--allow-non-preemptible", [options] { options->allow_non_preemptible = true; },
      "take Jobs with `preemption: PREEMPTION_NEVER`");
  command.add_flag_callback(
      "--deny-non-preemptible", [options] { options->allow_non_preemptible = false; },
      "take no more of them");
}

void AddQueueCommands(CLI::App& app, Act* act) {
  CLI::App* queue = app.add_subcommand("queue", "Create, change, stop and show Queues");
  queue->require_subcommand(1);
  queue->alias("queues");
  auto queue_options = std::make_shared<QueueOptions>();
  CLI::App* create = queue->add_subcommand("create", "Create a Queue");
  AddQueueOptions(*create, queue_options);
  create->add_option("--parent", queue_options->parent, "Queue above it; default none")
      ->type_name("QUEUE");
  create->footer(
      "Examples:\n"
      "  capstan queue create research --weight 300 --guarantee nvidia.com/h100=64\n"
      "  capstan queue create vision --parent research --borrowing-limit nvidia.com/h100=8\n");
  create->callback([=] {
    *act = [=](Invocation& invocation) { return CreateQueue(*queue_options, invocation); };
  });
  CLI::App* update = queue->add_subcommand("update", "Change what the options name of a Queue");
  AddQueueOptions(*update, queue_options);
  update->footer(
      "Examples:\n"
      "  capstan queue update research --weight 200 --guarantee nvidia.com/h100=96\n"
      "  capstan queue update research --allow-project all --min-runtime 30m\n"
      "  capstan queue update research --usage-half-life 168h --submit-rate 100/1m\n"
      "  capstan queue update research --start-rate none --disruption-budget 3/24h\n");
  update->callback([=] {
    *act = [=](Invocation& invocation) { return UpdateQueue(*queue_options, invocation); };
  });
  auto stopped = std::make_shared<std::string>();
  const auto add_stop = [&](const char* word, const char* help, const char* stop, bool set) {
    CLI::App* command = AddNamed(*queue, word, help, "QUEUE", "id, or queues/{q}", stopped.get());
    command->footer(absl::StrCat("Examples:\n  capstan queue ", word, " research\n"));
    command->callback([=] {
      *act = [=](Invocation& invocation) { return StopQueue(*stopped, stop, set, invocation); };
    });
  };
  add_stop("cordon", "Let a Queue, and those below it, take no new Jobs", "cordon", true);
  add_stop("uncordon", "Let a Queue take Jobs again", "cordon", false);
  add_stop("hold", "Start nothing in a Queue and those below it; what runs goes on", "hold", true);
  add_stop("release", "Start Jobs of a held Queue again", "hold", false);
  add_stop("drain", "Take and start nothing, and stop what runs: it waits in the Queue", "drain",
           true);
  add_stop("undrain", "Take and start Jobs again after a drain", "drain", false);
  queue->add_subcommand("list", "List Queues")
      ->footer("Examples:\n  capstan queue list\n  capstan queue list -o wide\n")
      ->callback([=] { *act = ListQueues; });
  auto name = std::make_shared<std::string>();
  CLI::App* get = AddNamed(*queue, "get", "Show one Queue and its limits", "QUEUE",
                           "id, or queues/{q}", name.get());
  get->alias("describe");
  get->footer("Examples:\n  capstan queue get default\n  capstan queue get default -o json\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetQueue(*name, invocation); }; });
}

void AddClusterCommands(CLI::App& app, Act* act) {
  CLI::App* cluster = app.add_subcommand("cluster", "Show Clusters and the health of their Nodes");
  cluster->require_subcommand(1);
  cluster->alias("clusters");
  cluster->add_subcommand("list", "List Clusters")
      ->footer("Examples:\n  capstan cluster list\n")
      ->callback([=] { *act = ListClusters; });
  auto name = std::make_shared<std::string>();
  CLI::App* get = AddNamed(*cluster, "get", "Show one Cluster and the verdict on each Node",
                           "CLUSTER", "id, or clusters/{c}", name.get());
  get->alias("describe");
  get->footer("Examples:\n  capstan cluster get local\n");
  get->callback(
      [=] { *act = [=](Invocation& invocation) { return GetCluster(*name, invocation); }; });
}

}  // namespace

void AddFleetCommands(CLI::App& app, Act* act) {
  AddNodeCommands(app, act);
  AddQueueCommands(app, act);
  AddClusterCommands(app, act);
}

}  // namespace capstan::cli
