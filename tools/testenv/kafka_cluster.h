#ifndef CAPSTAN_TOOLS_TESTENV_KAFKA_CLUSTER_H_
#define CAPSTAN_TOOLS_TESTENV_KAFKA_CLUSTER_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/testenv/planned_server.h"

namespace capstan::testenv {

// Real Kafka of a test's own: one or more clusters side by side, of one broker each, without TLS,
// that make no topic by themselves. Some 5 s to start, 200 MB each. Ends, with its data, when
// destroyed or when the test dies. For one thread, which must outlive it. A test that uses it has
// //tools/testenv:kafka_home as data, and is tagged manual and needs:kafka.
//
//   auto kafka = testenv::KafkaCluster::Start({.clusters = 2});
//   ASSERT_TRUE(kafka.ok()) << kafka.status();
//   ASSERT_TRUE((*kafka)->CreateTopic(0, "events", 4).ok());
//   client options: bootstrap.servers = (*kafka)->bootstrap_servers(0)
//   (*kafka)->Kill(1);
class KafkaCluster {
 public:
  struct Options {
    int clusters = 1;
  };

  // NOT_FOUND or UNAVAILABLE, with what to do, if it does not start.
  static absl::StatusOr<std::unique_ptr<KafkaCluster>> Start(Options options);

  int clusters() const { return clusters_; }
  // `127.0.0.1:<port>` of a cluster, which a restart keeps.
  std::string bootstrap_servers(int cluster) const { return server_->endpoint(Name(cluster)); }
  // With settings of the topic, e.g. {"retention.ms", "60000"}. UNAVAILABLE if the broker refuses.
  absl::Status CreateTopic(int cluster, const std::string& name, int partitions,
                           const std::map<std::string, std::string>& settings = {});

  // SIGKILL, SIGSTOP and SIGCONT of a cluster's broker.
  void Kill(int cluster) { server_->Kill(Name(cluster)); }
  void Stop(int cluster) { server_->Stop(Name(cluster)); }
  void Continue(int cluster) { server_->Continue(Name(cluster)); }
  // Starts one that was killed, with what it had on disk, and waits until it serves.
  absl::Status Restart(int cluster) { return server_->Restart(Name(cluster)); }

 private:
  KafkaCluster(int clusters, std::unique_ptr<PlannedServer> server)
      : clusters_(clusters), server_(std::move(server)) {}
  static std::string Name(int cluster);

  const int clusters_;
  const std::unique_ptr<PlannedServer> server_;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_KAFKA_CLUSTER_H_
