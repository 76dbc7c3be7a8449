#include "tools/testenv/kafka_cluster.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"

namespace capstan::testenv {

absl::StatusOr<std::unique_ptr<KafkaCluster>> KafkaCluster::Start(Options options) {
  CAPSTAN_ASSIGN_OR_RETURN(
      std::unique_ptr<PlannedServer> server,
      PlannedServer::Start({.server = "kafka",
                            .ports = 2 * options.clusters,
                            .programs = {"kafka"},
                            .arguments = {absl::StrCat("--clusters=", options.clusters)}}));
  return std::unique_ptr<KafkaCluster>(new KafkaCluster(options.clusters, std::move(server)));
}

std::string KafkaCluster::Name(int cluster) { return absl::StrCat("kafka-", cluster + 1); }

absl::Status KafkaCluster::CreateTopic(int cluster, const std::string& name, int partitions,
                                       const std::map<std::string, std::string>& settings) {
  std::vector<std::string> arguments = {"topic", bootstrap_servers(cluster), name,
                                        absl::StrCat("--partitions=", partitions)};
  for (const auto& [key, value] : settings) {
    arguments.push_back(absl::StrCat("--set=", key, "=", value));
  }
  return server_->RunTool(arguments);
}

}  // namespace capstan::testenv
