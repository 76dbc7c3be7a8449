#ifndef CAPSTAN_SERVICES_NODE_AGENT_USAGE_SAMPLER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_USAGE_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/cgroup/usage.h"
#include "libs/gpu/task_devices.h"
#include "libs/metrics/registry.h"
#include "libs/session/task_id.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/usage.pb.h"
#include "services/node_agent/core/step.h"
#include "services/node_agent/ports/log_sink.h"

namespace capstan::node_agent {

// Looks at what the running Tasks use, all at once every few seconds, and tells telemetry, to
// `projects/{p}/jobs/{j}/streams/usage`. Nothing is kept and nothing sent again: while a Job's
// samples are on their way its next ones are dropped and counted, so that a telemetry that hangs
// costs one call a Job. On the agent's strand.
//
// A sample's sequence is its CLOCK_BOOTTIME in milliseconds: a Task does not outlive a boot, so it
// rises over all lives of the agent.
class UsageSampler {
 public:
  struct Options {
    // `<cluster>/<node>`.
    std::string producer;
    // From a Task's first sample to its second, which is the first with a rate.
    absl::Duration soon = absl::Seconds(1);
    absl::Duration every = absl::Seconds(5);
  };
  // Blocks for files of the kernel; called on `files`.
  using Reader =
      std::function<cgroup::Usage(const capstan::nodeagent::v1::ShimSpec::Cgroup& group)>;
  // By Task: the devices on which its processes are.
  using Groups = std::map<session::TaskId, capstan::nodeagent::v1::ShimSpec::Cgroup>;
  using Devices = std::map<session::TaskId, std::vector<gpu::TaskDevice>>;
  // Blocks in the devices' driver; called on a strand of its own.
  using DeviceLook = std::function<Devices(const Groups& groups)>;

  // Samples nothing without a reader. `registry` may be null. All must outlive the sampler.
  UsageSampler(Options options, Strand* strand, Strand* files, LogSink* sink, Reader read,
               metrics::Registry* registry);
  ~UsageSampler();
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;

  // From now on samples say what their Tasks use of devices, as looked up on `driver` beside them:
  // a driver that hangs costs these figures and no others. Both must outlive the sampler.
  void LookAtDevices(Strand* driver, DeviceLook look);

  // Begins to sample a Task. Level: a repeated order changes nothing. A Task without a cgroup has
  // no figures of its own, and is left out.
  void Watch(const ShipLogs& order);
  void Drop(const session::TaskId& id);
  // Drops all.
  void Clear();

 private:
  struct Look {
    cgroup::Usage usage;
    BootTime at;
  };
  struct Watched {
    ShipLogs order;
    // The last that was sent, or dropped.
    absl::optional<Look> last;
    int looks = 0;
  };
  using Looks = std::map<session::TaskId, Look>;

  void Schedule(absl::Duration delay);
  void Sample();
  void StartDeviceLook(const Groups& groups);
  // What is known and not too old.
  void AddDevices(const session::TaskId& id, capstan::telemetry::v1::TaskUsage* usage) const;
  void OnLooks(const Looks& looks);
  void Send(const std::string& job, std::vector<capstan::telemetry::v1::Record> records);
  capstan::telemetry::v1::Record MakeSample(const Watched& task, const Look& look) const;

  const Options options_;
  Strand* const strand_;
  Strand* const files_;
  LogSink* const sink_;
  const Reader read_;
  absl::optional<metrics::Counter> sent_;
  absl::optional<metrics::Counter> dropped_;
  std::map<session::TaskId, Watched> tasks_;
  // Jobs whose samples are on their way.
  std::set<std::string> sending_;
  bool looking_ = false;
  Strand* driver_ = nullptr;
  DeviceLook device_look_;
  bool looking_at_devices_ = false;
  Devices devices_;
  BootTime devices_at_;
  Strand::TimerId timer_ = 0;
  BootTime next_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_USAGE_SAMPLER_H_
