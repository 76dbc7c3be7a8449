#ifndef CAPSTAN_INTEGRATION_SIMULATION_RECORD_LINK_H_
#define CAPSTAN_INTEGRATION_SIMULATION_RECORD_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/ports/subscriptions.h"

namespace capstan::simulation {

// The stream of one Subscribe call between two processes: in order, late, with room for a few
// messages, and broken without a word when the network is cut or an end dies; each end learns of it
// by half a minute of silence at the latest. It belongs to one life of each end.
class RecordLink final : public std::enable_shared_from_this<RecordLink> {
 public:
  // Run on the reader, in its life; `ended` at most once, as the last.
  struct Reader {
    std::function<void(const telemetry::v1::SubscribeResponse&)> received;
    std::function<void(const absl::Status&)> ended;
  };

  // Of a call from `reader` to `server`, made when it has reached the server.
  RecordLink(Network* network, Process* server, Process* reader, int64_t reader_life,
             Reader callbacks);

  // What the server writes to. Once.
  std::unique_ptr<telemetry::SubscriptionSink> MakeSink();
  // The reader goes.
  void CloseReader();

 private:
  class Sink;

  absl::Status Write(const telemetry::v1::SubscribeResponse& response);
  void Finish(const absl::Status& status);
  // Runs `arrive` on the reader behind all that was sent before, if the network lets it.
  void Send(std::function<void()> arrive);
  void PostDrained();
  void PostClosed();
  // In its life, and not from within what it does now.
  void RunOnServer(Strand::Task task);
  void Watch();
  void ReaderGone(const absl::Status& status);
  void ServerGone();
  bool ReaderAlive() const { return reader_->up() && reader_->life() == reader_life_; }
  bool ServerAlive() const { return server_->up() && server_->life() == server_life_; }
  bool Passes() const {
    return network_->Passes(server_->name(), reader_->name()) &&
           network_->Passes(reader_->name(), server_->name());
  }

  Network* const network_;
  Process* const server_;
  Process* const reader_;
  const int64_t server_life_;
  const int64_t reader_life_;
  const Reader callbacks_;
  bool reader_open_ = true;
  bool server_open_ = true;
  // A message was lost: nothing more gets through.
  bool broken_ = false;
  absl::Duration last_due_;
  absl::Duration heard_;
  int waiting_ = 0;
  // Posted on the server's strand, which its life ends.
  Strand::Task drained_;
  Strand::Task closed_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_RECORD_LINK_H_
