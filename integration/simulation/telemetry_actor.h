#ifndef CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_ACTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "integration/simulation/disk_streams.h"
#include "integration/simulation/disk_subscriptions.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "integration/simulation/process_strand.h"
#include "integration/simulation/telemetry_witness.h"
#include "libs/audit/audit_sink.h"
#include "libs/metrics/registry.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/ports/subscriptions.h"
#include "services/telemetry/subscription_engine.h"

namespace capstan::simulation {

// Telemetry: its real subscription engine and its real producer index, over one Stream and one
// subscription on one simulated disk.
class TelemetryActor final : public Process {
 public:
  struct Record {
    std::string key;
    int64_t sequence = 0;
  };
  TelemetryActor(World* world, const MachineClock* clock, const Mutants* mutants)
      : Process(world, "telemetry", clock), mutants_(mutants), witness_(world, &disk_) {}

  template <typename T>
  using Reply = std::function<void(absl::StatusOr<T>)>;
  // Keeps what is new, and replies once all is on disk.
  void Append(const std::string& producer, const std::vector<Record>& records,
              const Reply<bool>& reply);
  void Create(const Reply<telemetry::v1::Subscription>& reply);
  void Subscribe(std::unique_ptr<telemetry::SubscriptionSink> sink);
  void Acknowledge(int64_t offset, int64_t generation,
                   const Reply<telemetry::v1::AcknowledgeResponse>& reply);
  void Seek(int64_t next_offset, const Reply<telemetry::v1::Subscription>& reply);

  TelemetryWitness& witness() { return witness_; }
  const TelemetryWitness& witness() const { return witness_; }
  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override {}

 private:
  // The audit trail is of no matter here.
  class Audit final : public audit::AuditSink {
   public:
    absl::Status Record(const audit::AuditEntry&) override { return absl::OkStatus(); }
  };
  void Retain();

  const Mutants* const mutants_;
  Disk disk_;
  TelemetryWitness witness_;
  Audit audit_;
  // Of this life, in the order in which they are made.
  std::unique_ptr<metrics::Registry> metrics_;
  std::unique_ptr<ProcessStrand> strand_;
  std::unique_ptr<DiskStreams> streams_;
  std::unique_ptr<DiskSubscriptions> store_;
  std::unique_ptr<telemetry::SubscriptionEngine> engine_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_ACTOR_H_
