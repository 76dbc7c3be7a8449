#ifndef CAPSTAN_INTEGRATION_BENCH_BENCH_PLATFORM_H_
#define CAPSTAN_INTEGRATION_BENCH_BENCH_PLATFORM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "integration/platform/test_platform.h"
#include "libs/random/random.h"
#include "libs/rpc/identity.h"
#include "libs/time/clock.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::bench {

// A platform as `capstan dev up` starts it, every part a process of its own, and connections to its
// services as those who use them have: mTLS, with the person's SVID or the Node's. One thread.
class BenchPlatform {
 public:
  // `config`: lines of PlatformConfig. The clock must outlive it.
  explicit BenchPlatform(const Clock* clock, absl::string_view config = "");

  // `capstan dev up`, until every part is ready.
  absl::Status Start();

  integration::TestPlatform& platform() { return platform_; }
  Random& random() { return random_; }

  // To the service's one process or, of replicas, to the one that leads, for the person who started
  // the platform.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Person(absl::string_view service);
  // So many connections, each its own, to the service's first process.
  absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> People(absl::string_view service,
                                                                     int connections);
  // The same for the machine's Node, with the identity that its agent has.
  absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> Nodes(absl::string_view service,
                                                                    int connections);
  // One to the service's first process, with the identity of another service, e.g. `scheduler`.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Service(absl::string_view caller,
                                                         absl::string_view service);
  // A Task of a generation 1 and a group `w`.
  struct PlacedTask {
    std::string job;
    std::string uid;
    int index = 0;
    std::string service_account = "";
  };
  // What the Node shows for such a Task, signed by the scheduler's key: as if it had been placed.
  absl::StatusOr<std::string> Grant(const PlacedTask& task) const;
  // A Queue in which Jobs wait for ever, so that what is measured is not their running.
  absl::Status MakeHeldQueue(const std::string& id);

 private:
  std::vector<std::shared_ptr<grpc::Channel>> Dial(
      absl::string_view service, const std::shared_ptr<const rpc::Identity>& identity,
      int connections) const;

  const Clock* const clock_;
  Random random_;
  integration::TestPlatform platform_;
  std::unique_ptr<cli::Platform> person_;
};

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_BENCH_PLATFORM_H_
