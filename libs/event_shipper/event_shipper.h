#ifndef CAPSTAN_LIBS_EVENT_SHIPPER_EVENT_SHIPPER_H_
#define CAPSTAN_LIBS_EVENT_SHIPPER_EVENT_SHIPPER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "libs/log/log.h"
#include "libs/store/outbox.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"

namespace capstan {

// The sink of an outbox that leads to telemetry. On the engine's strand only, destruction included.
//
//   shipper_ = std::make_unique<EventShipper>(
//       telemetry_channel, strand_, logger_,
//       EventShipper::Options{.producer = "scheduler", .incarnation = store_->incarnation()});
//   outbox_ = std::make_unique<store::Outbox>(
//       store_, strand_, queue_.get(), loaded_revision,
//       store::Outbox::Options{.prefix = "/capstan/scheduler/v1/outbox/"},
//       [this](const std::vector<store::OutboxRecord>& records, store::DoneCallback taken) {
//         shipper_->Ship(records, std::move(taken));
//       });
//   outbox_->Start();
//   // With every step:
//   for (const JobEvent& event : step.events) puts.push_back(outbox_->Add(OutboxPayload(event)));
//
// Records go to telemetry in one call for all their Streams, as far as its bounds allow, and keep
// their order within a Stream. What was sent and not acknowledged is sent again with
// the same producer (`<producer>@<incarnation>`) and sequence, so telemetry keeps it once. A record
// that telemetry refuses as malformed would block all behind it for ever: it is logged and given
// up.
//
// A telemetry of a version before AppendToStreams gets a call for each Stream. It is asked anew
// with every Ship: that is one call more beside as many as there are Streams, and none too many
// once it is upgraded.
class EventShipper {
 public:
  struct Options {
    // The service, e.g. `scheduler`.
    std::string producer;
    // Store::incarnation(): sequences begin anew with each.
    int64_t incarnation = 0;
  };

  // `strand` and `logger` must outlive it.
  EventShipper(const std::shared_ptr<grpc::Channel>& telemetry, Strand* strand,
               const log::Logger* logger, const Options& options);
  EventShipper(const EventShipper&) = delete;
  EventShipper& operator=(const EventShipper&) = delete;

  // An Outbox::Sink. OK once telemetry has all of them on disk. One call at a time: another one
  // takes the place of that which is under way, which is told CANCELLED, since its outbox has gone
  // with its term.
  void Ship(const std::vector<store::OutboxRecord>& records, store::DoneCallback taken);

  // Records given up since they were malformed.
  int64_t refused() const { return refused_; }

 private:
  // For what telemetry answers: nothing once another Ship has taken the place of this one.
  template <typename Response>
  auto WhileUnderWay(void (EventShipper::*answered)(const absl::StatusOr<Response>& response));
  void SendNext();
  void SendOne();
  void SendMany();
  void AnsweredOne(const absl::StatusOr<telemetry::v1::AppendRecordsResponse>& response);
  void AnsweredMany(const absl::StatusOr<telemetry::v1::AppendToStreamsResponse>& response);
  // Telemetry refuses something of it. The others of its records go through.
  void Refused(telemetry::v1::AppendRecordsRequest append, const absl::Status& status);
  void Finish(const absl::Status& status);

  // Lives as long as a call under way.
  const std::shared_ptr<telemetry::v1::StreamService::Stub> stub_;
  Strand* const strand_;
  const log::Logger* const logger_;
  const std::string producer_;
  // Left to send of this Ship, each to a Stream of its own.
  std::deque<telemetry::v1::AppendRecordsRequest> appends_;
  // The call for several of them that is under way.
  std::vector<telemetry::v1::AppendRecordsRequest> many_;
  // What goes in calls of its own and before the others, the front being under way.
  std::deque<telemetry::v1::AppendRecordsRequest> single_;
  // It does not know AppendToStreams.
  bool old_telemetry_ = false;
  store::DoneCallback taken_;
  // Ends with the Ship that is under way.
  std::shared_ptr<char> under_way_;
  int64_t refused_ = 0;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_EVENT_SHIPPER_EVENT_SHIPPER_H_
