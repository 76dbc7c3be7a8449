#include "integration/simulation/record_link.h"

#include <algorithm>
#include <utility>

namespace capstan::simulation {
namespace {

constexpr absl::Duration kProbe = absl::Seconds(5);
constexpr absl::Duration kSilence = absl::Seconds(30);
// Messages on their way.
constexpr int kRoom = 3;

absl::Status Broken() { return absl::UnavailableError("simulated: the stream is broken"); }

}  // namespace

class RecordLink::Sink final : public telemetry::SubscriptionSink {
 public:
  explicit Sink(std::shared_ptr<RecordLink> link) : link_(std::move(link)) {}
  ~Sink() override { link_->Finish(Broken()); }

  absl::Status Write(const telemetry::v1::SubscribeResponse& response) override {
    return link_->Write(response);
  }
  void NotifyDrained(Strand::Task task) override {
    link_->drained_ = std::move(task);
    if (link_->waiting_ < kRoom) link_->PostDrained();
  }
  void NotifyClosed(Strand::Task task) override {
    link_->closed_ = std::move(task);
    if (!link_->server_open_) link_->PostClosed();
  }
  void Finish(const absl::Status& status) override { link_->Finish(status); }

 private:
  const std::shared_ptr<RecordLink> link_;
};

RecordLink::RecordLink(Network* network, Process* server, Process* reader, int64_t reader_life,
                       Reader callbacks)
    : network_(network),
      server_(server),
      reader_(reader),
      server_life_(server->life()),
      reader_life_(reader_life),
      callbacks_(std::move(callbacks)),
      heard_(network->world().now()) {}

std::unique_ptr<telemetry::SubscriptionSink> RecordLink::MakeSink() {
  Watch();
  return std::make_unique<Sink>(shared_from_this());
}

void RecordLink::Send(std::function<void()> arrive) {
  World& world = network_->world();
  last_due_ = std::max(last_due_, world.now() + network_->Delay(server_->name(), reader_->name()));
  world.After(last_due_ - world.now(),
              [self = shared_from_this(), arrive = std::move(arrive)]() mutable {
                if (!self->network_->Passes(self->server_->name(), self->reader_->name())) {
                  self->broken_ = true;
                }
                if (self->broken_ || !self->reader_open_) return;
                self->reader_->Run(self->reader_life_, std::move(arrive));
              });
}

absl::Status RecordLink::Write(const telemetry::v1::SubscribeResponse& response) {
  if (!server_open_) return absl::CancelledError("simulated: the reader is gone");
  if (waiting_ >= kRoom) return absl::ResourceExhaustedError("simulated: the reader is slow");
  ++waiting_;
  Send([self = shared_from_this(), response] {
    --self->waiting_;
    self->PostDrained();
    if (self->reader_open_) self->callbacks_.received(response);
  });
  return absl::OkStatus();
}

void RecordLink::Finish(const absl::Status& status) {
  drained_ = nullptr;
  closed_ = nullptr;
  if (!std::exchange(server_open_, false)) return;
  Send([self = shared_from_this(), status] { self->ReaderGone(status); });
}

void RecordLink::PostDrained() {
  if (drained_ == nullptr) return;
  RunOnServer(std::exchange(drained_, nullptr));
}

void RecordLink::PostClosed() {
  drained_ = nullptr;
  if (closed_ == nullptr) return;
  RunOnServer(std::exchange(closed_, nullptr));
}

void RecordLink::RunOnServer(Strand::Task task) {
  network_->world().After(
      absl::ZeroDuration(),
      [self = shared_from_this(), task = std::make_shared<Strand::Task>(std::move(task))] {
        self->server_->Run(self->server_life_, [task] { (*task)(); });
      });
}

void RecordLink::Watch() {
  World& world = network_->world();
  const bool both = ReaderAlive() && ServerAlive() && reader_open_ && server_open_ && !broken_ &&
                    !reader_->stopped() && !server_->stopped();
  if (Passes() && both) heard_ = world.now();
  // A dead process's machine answers with a reset, if it is reached.
  if (Passes() && (!ReaderAlive() || !reader_open_)) ServerGone();
  if (Passes() && !ServerAlive()) ReaderGone(Broken());
  if (world.now() - heard_ >= kSilence) {
    ReaderGone(Broken());
    ServerGone();
  }
  if (!reader_open_ && !server_open_) return;
  world.After(kProbe, [self = shared_from_this()] { self->Watch(); });
}

void RecordLink::ReaderGone(const absl::Status& status) {
  if (!std::exchange(reader_open_, false)) return;
  reader_->Run(reader_life_,
               [self = shared_from_this(), status] { self->callbacks_.ended(status); });
}

void RecordLink::ServerGone() {
  if (!std::exchange(server_open_, false)) return;
  PostClosed();
}

void RecordLink::CloseReader() { reader_open_ = false; }

}  // namespace capstan::simulation
