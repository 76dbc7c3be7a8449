#ifndef CAPSTAN_SERVICES_TELEMETRY_SUBSCRIPTION_READER_H_
#define CAPSTAN_SERVICES_TELEMETRY_SUBSCRIPTION_READER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/ports/streams.h"
#include "services/telemetry/ports/subscriptions.h"

namespace capstan::telemetry {

// A connected reader of a subscription: it gets the records behind the cursor in their order
// without a hole, or ends with what says why not. On the engine's strand.
class SubscriptionReader {
 public:
  // As admitted: its cursor is where the reader begins, its generation the reader's.
  SubscriptionReader(core::SubscriptionRecord record, std::unique_ptr<SubscriptionSink> sink);

  const core::SubscriptionRecord& record() const { return record_; }
  // Behind the last record that was written to it.
  int64_t next() const { return next_; }
  bool over() const { return over_; }

  // Its generation, before there is anything to acknowledge. Not OK: the reader is gone.
  absl::Status TellGeneration();
  // As RecordSink::Write. A gap that retention left, or a record that is missing, ends the reader.
  absl::Status Write(const v1::ReadRecordsResponse& read);
  void NotifyDrained(Strand::Task task) { sink_->NotifyDrained(std::move(task)); }
  void NotifyClosed(Strand::Task task) { sink_->NotifyClosed(std::move(task)); }
  // Later ends are ignored. That retention has overtaken the read becomes CURSOR_EXPIRED.
  void End(const absl::Status& why);

 private:
  absl::Status Expired(int64_t next, int64_t first) const;

  const core::SubscriptionRecord record_;
  const std::unique_ptr<SubscriptionSink> sink_;
  int64_t next_;
  bool over_ = false;
};

// What Streams write a reader's records to. `gone` is told whenever the reader is found to be over.
std::unique_ptr<RecordSink> MakeReaderSink(
    std::shared_ptr<SubscriptionReader> reader,
    std::function<void(const std::shared_ptr<SubscriptionReader>&)> gone);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_SUBSCRIPTION_READER_H_
