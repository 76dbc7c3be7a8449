#ifndef CAPSTAN_SERVICES_TELEMETRY_API_WRITER_SINK_H_
#define CAPSTAN_SERVICES_TELEMETRY_API_WRITER_SINK_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "libs/rpc/server_stream.h"
#include "libs/strand/strand.h"
#include "services/telemetry/ports/response_sink.h"

namespace capstan::telemetry {

// A server-streaming call as the engines see it. `strand` must outlive it.
template <typename Response>
class WriterSink final : public ResponseSink<Response> {
 public:
  using Writer = rpc::ServerStreamWriter<Response>;

  WriterSink(std::shared_ptr<Writer> writer, Strand* strand)
      : writer_(std::move(writer)), strand_(strand) {}
  ~WriterSink() override { writer_->Finish(absl::UnavailableError("telemetry is stopping")); }

  absl::Status Write(const Response& response) override { return writer_->Write(response); }
  void NotifyDrained(Strand::Task task) override {
    writer_->NotifyDrained(strand_, std::move(task));
  }
  void NotifyClosed(Strand::Task task) override { writer_->NotifyClosed(strand_, std::move(task)); }
  void Finish(const absl::Status& status) override { writer_->Finish(status); }

 private:
  const std::shared_ptr<Writer> writer_;
  Strand* const strand_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_API_WRITER_SINK_H_
