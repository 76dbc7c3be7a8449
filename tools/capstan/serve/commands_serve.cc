#include "tools/capstan/serve/commands_serve.h"

#include <memory>

#include "CLI/CLI.hpp"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {
namespace {

using Serve = absl::Status (*)(const ServeOptions&, const Clock*);

struct Row {
  const char* name;
  const char* help;
  Serve serve;
};

constexpr Row kRows[] = {
    {"credentials", "Identities, Projects and policy", ServeCredentials},
    {"scheduler", "Jobs, Queues and Nodes", ServeScheduler},
    {"telemetry", "Logs and events", ServeTelemetry},
    {"executor", "The control of one Cluster", ServeExecutor},
    {"node_agent", "The Tasks of this machine", ServeNodeAgent},
    {"data_loader", "Datasets, Bundles and Outputs", ServeDataLoader},
    {"cluster_manager", "The health of Nodes", ServeClusterManager},
};

}  // namespace

void AddServeCommands(CLI::App& app, cli::Act* act) {
  CLI::App* serve = app.add_subcommand(
      "serve", "Run one part of the platform in the data folder (`dev up` runs them all)");
  serve->require_subcommand(1);
  auto options = std::make_shared<ServeOptions>();
  for (const Row& row : kRows) {
    CLI::App* part = serve->add_subcommand(row.name, row.help);
    part->add_option("--join-token-fd", options->join_token_fd,
                     "descriptor of a pipe with a join token");
    if (row.serve == ServeCredentials) {
      part->add_option("--supervisor-fd", options->supervisor_fd, "socket to the supervisor");
      part->add_option("--admin-uid", options->admin_uid, "admin after the first run");
      part->add_option("--supervised-path", options->supervised_paths,
                       "identity that the supervisor may ask a token for (repeatable)");
    }
    part->callback([act, options, function = row.serve] {
      *act = [=](cli::Invocation& invocation) {
        options->data_dir = invocation.data_dir;
        return function(*options, invocation.clock);
      };
    });
  }
}

}  // namespace capstan::serve
