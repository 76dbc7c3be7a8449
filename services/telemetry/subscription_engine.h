#ifndef CAPSTAN_SERVICES_TELEMETRY_SUBSCRIPTION_ENGINE_H_
#define CAPSTAN_SERVICES_TELEMETRY_SUBSCRIPTION_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/audit/audit_sink.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/ports/streams.h"
#include "services/telemetry/ports/subscription_store.h"
#include "services/telemetry/ports/subscriptions.h"
#include "services/telemetry/subscription_reader.h"

namespace capstan::telemetry {

// Carries out what is asked of subscriptions: one command about each at a time, answered once the
// store has it on disk. A reader's records come from Streams; how many are on their way to it is
// bounded there and by its sink. On its strand only, destruction included.
class SubscriptionEngine final : public Subscriptions {
 public:
  struct Options {
    SubscriptionBook::Limits limits;
    // Commands about one subscription that wait for the one before.
    size_t max_waiting = 32;
    // How old what a list and the metrics say of the Streams may be.
    absl::Duration refresh_every = absl::Minutes(1);
  };
  // All must outlive it, and the store's answers be over before the strand is.
  struct Deps {
    Strand* strand = nullptr;
    Streams* streams = nullptr;
    SubscriptionStore* store = nullptr;
    // Waits for the audit trail's disk.
    Strand* audit_strand = nullptr;
    audit::AuditSink* audit = nullptr;
    metrics::Registry* metrics = nullptr;
  };

  // `records` is what the store has loaded.
  SubscriptionEngine(const Options& options, const Deps& deps,
                     std::vector<core::SubscriptionRecord> records);
  ~SubscriptionEngine() override;
  SubscriptionEngine(const SubscriptionEngine&) = delete;
  SubscriptionEngine& operator=(const SubscriptionEngine&) = delete;

  void Create(const v1::CreateSubscriptionRequest& request, const std::string& principal,
              Done<v1::Subscription> done) override;
  void Get(const std::string& name, Done<v1::Subscription> done) override;
  std::vector<v1::Subscription> List(const std::string& parent) override;
  void Delete(const std::string& name, const std::string& principal,
              absl::AnyInvocable<void(absl::Status)> done) override;
  void Seek(const v1::SeekSubscriptionRequest& request, const std::string& principal,
            Done<v1::Subscription> done) override;
  void Subscribe(const v1::SubscribeRequest& request,
                 std::unique_ptr<SubscriptionSink> sink) override;
  void Acknowledge(const v1::AcknowledgeRequest& request,
                   Done<v1::AcknowledgeResponse> done) override;

  // Ends all readers with UNAVAILABLE; nothing new is begun.
  void Stop();

 private:
  // The commands about one subscription: the first is under way.
  using Lane = std::deque<absl::AnyInvocable<void()>>;

  // Whether a command about the subscription can be taken: UNAVAILABLE, SUBSCRIPTION_BUSY.
  absl::Status CheckLane(const std::string& name) const;
  // Runs `act` once those before are over; it must end in Leave.
  void Enter(const std::string& name, absl::AnyInvocable<void()> act);
  void Leave(const std::string& name);

  // Calls `next` with the extent of a subscription's Stream.
  void WithExtent(const std::string& stream,
                  absl::AnyInvocable<void(absl::StatusOr<StreamExtent>)> next);
  // Writes the act down, then calls `next` with the outcome.
  void Audited(const char* act, const std::string& name, const std::string& principal,
               const std::string& message, absl::AnyInvocable<void(absl::Status)> next);
  // Stores the record, and has it take effect.
  void Commit(core::SubscriptionRecord record, absl::AnyInvocable<void(absl::Status)> next);
  v1::Subscription Show(const core::SubscriptionRecord& record, const StreamExtent& extent) const;

  void EndReader(const std::string& name, const absl::Status& why);
  void OnReaderGone(const std::shared_ptr<SubscriptionReader>& reader);
  void OpenReader(const core::SubscriptionRecord& record, bool follow,
                  std::unique_ptr<SubscriptionSink> sink);
  // Tells Streams which are read by subscriptions.
  void KeepNewest();
  // Looks the Streams up one after the other, and sets the metrics.
  void Refresh();
  void RefreshFrom(std::vector<std::string> streams, size_t at);
  void SetMetrics();

  template <typename F>
  auto WhileAlive(F f);

  const Options options_;
  const Deps deps_;
  SubscriptionBook book_;
  std::map<std::string, Lane> lanes_;
  // Subscriptions that are being made, by name: the Stream.
  std::map<std::string, std::string> in_the_making_;
  std::map<std::string, std::shared_ptr<SubscriptionReader>> readers_;
  // As last looked up, by Stream.
  std::map<std::string, StreamExtent> extents_;
  bool stopped_ = false;
  Strand::TimerId refresh_timer_ = 0;
  metrics::Gauge subscriptions_;
  metrics::Gauge open_readers_;
  metrics::Gauge lag_;
  metrics::Gauge largest_lag_;
  metrics::Gauge expired_;
  metrics::Counter acknowledgements_;
  metrics::Counter takeovers_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_SUBSCRIPTION_ENGINE_H_
