#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_GPU_WATCH_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_GPU_WATCH_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/gpu/device_inventory.h"
#include "libs/log/log.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "services/node_agent/adapters/found_gpus.h"

namespace capstan::node_agent {

// Which GPUs the machine has, asked anew each time, with a bound on how long anyone waits for the
// driver. What changes is logged: what is offered, what is not and why.
//
// Lives on the strand; the driver is asked on `driver`, where it may hang. Then its last answer
// stands for `silent_after`, after which no GPU is offered until it answers: what it does not list it
// does not start either. A machine without a driver has no GPUs; one may come, and go, at any time.
class GpuWatch {
 public:
  using Open = std::function<absl::StatusOr<std::unique_ptr<gpu::DeviceInventory>>()>;
  using Callback = absl::AnyInvocable<void(const FoundGpus& found)>;
  struct Options {
    // How long the caller waits for an answer before it gets the last one.
    absl::Duration patience = absl::Seconds(5);
    absl::Duration silent_after = absl::Minutes(1);
  };

  // `open` is called on `driver`. All must outlive the watch.
  GpuWatch(Options options, Open open, Strand* strand, Strand* driver, const log::Logger* logger);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Looks, and says what was found; never inline.
  void Look(Callback done);

 private:
  // Of the driver's strand.
  class Asking;

  void Answered(const absl::StatusOr<std::vector<gpu::Gpu>>& gpus);
  void GiveUp();
  void Take(FoundGpus found);
  void AnswerAll();

  const Options options_;
  Strand* const strand_;
  Strand* const driver_;
  const log::Logger* const logger_;
  const std::shared_ptr<Asking> asking_;
  FoundGpus last_;
  // Of the last change, for the log.
  std::string offered_words_;
  std::string driver_words_;
  std::vector<Callback> waiting_;
  Strand::TimerId patience_ = 0;
  // Since when the driver owes an answer, if `is_asking_`.
  bool is_asking_ = false;
  BootTime asked_at_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_GPU_WATCH_H_
