#ifndef CAPSTAN_INTEGRATION_SIMULATION_SUBSCRIBER_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_SUBSCRIBER_ACTOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/record_link.h"
#include "integration/simulation/telemetry_actor.h"

namespace capstan::simulation {

// A program that reads the subscription, deals with what it gets and acknowledges it, and comes
// back when its stream ends. Two of one subscription replace each other. It remembers nothing.
class SubscriberActor final : public Process {
 public:
  SubscriberActor(Network* network, const MachineClock* clock, std::string name,
                  TelemetryActor* telemetry)
      : Process(&network->world(), std::move(name), clock),
        network_(network),
        telemetry_(telemetry) {}

  // Until then, in true time, it now and then goes back to read again.
  void GoBackUntil(absl::Duration end) { back_until_ = end; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override {}

 private:
  void Create();
  void ComeBack(absl::Duration soonest, absl::Duration latest);
  void Subscribe();
  void Received(const telemetry::v1::SubscribeResponse& response);
  void Ended(const absl::Status& why);
  void Acknowledge(int64_t offset, int64_t generation);
  // To `next_offset`, once.
  void Seek(int64_t next_offset);
  void PlanSeek();

  Network* const network_;
  TelemetryActor* const telemetry_;
  absl::Duration back_until_;
  // Of this life.
  std::shared_ptr<RecordLink> link_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_SUBSCRIBER_ACTOR_H_
