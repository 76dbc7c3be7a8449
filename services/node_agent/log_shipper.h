#ifndef CAPSTAN_SERVICES_NODE_AGENT_LOG_SHIPPER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_LOG_SHIPPER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/metrics/registry.h"
#include "libs/session/task_id.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/node_agent/core/step.h"
#include "services/node_agent/cursor.pb.h"
#include "services/node_agent/ports/log_sink.h"

namespace capstan::node_agent {

// A piece of a Task's log and metrics as telemetry takes it.
struct ShipBatch {
  std::vector<capstan::telemetry::v1::Record> log;
  std::vector<capstan::telemetry::v1::Record> metrics;
  // Where to go on once both are acknowledged.
  capstan::nodeagent::record::v1::Cursor next;
  // The Task has ended, and its shim may not have written its last.
  bool awaits_shim = false;
};

// Reads on from `cursor` in the Task's folder, as much as one call to telemetry takes. Blocks.
// Lines that are no metric are skipped. A jump in the log's sequence becomes a record of kind
// `gap`; the end of an ended Task's log, once all before it was acknowledged and no shim may write
// more, one of kind `end`.
absl::StatusOr<ShipBatch> ReadShipBatch(const ShipLogs& order, const std::string& producer,
                                        const capstan::nodeagent::record::v1::Cursor& cursor);

// Ships what Tasks write to `projects/{p}/jobs/{j}/streams/{log,metrics}`, in order, each from a
// cursor in the agent's store that is moved only after telemetry has acknowledged; so a crash
// repeats records, which telemetry drops by producer and sequence, and loses none. One batch of a
// Task under way at a time; a Task without news is looked at every `poll`. On the agent's strand.
class LogShipper {
 public:
  struct Options {
    // `<cluster>/<node>`: the producer's name, with the Task's key.
    std::string producer;
    absl::Duration poll = absl::Milliseconds(300);
    absl::Duration max_back_off = absl::Seconds(30);
    // For the shim of an ended Task to write what it has left. One that hangs is killed then; what
    // it had not read of the Task's lines is lost, as with any shim that dies.
    absl::Duration last_words = absl::Seconds(10);
  };

  // `files` runs what blocks. `shipped` says that an ended Task's log is shipped whole. `registry`
  // may be null. All must outlive the shipper.
  LogShipper(Options options, Strand* strand, Strand* files, store::Store* store, LogSink* sink,
             std::function<void(const session::TaskId&)> shipped, metrics::Registry* registry);
  ~LogShipper();

  // Begins, or, with `ended`, ships on until the end. Level: a repeated order changes nothing.
  void Ship(const ShipLogs& order);
  // Forgets a Task whose folder is going away.
  void Drop(const session::TaskId& id);
  // Number of Tasks of which something may be unshipped.
  size_t open() const { return tasks_.size(); }

 private:
  struct Shipment {
    ShipLogs order;
    absl::optional<capstan::nodeagent::record::v1::Cursor> cursor;
    // Sent, and not known to be stored. It is sent again as it was: telemetry may have its lines,
    // and were it read anew the spill might have dropped them meanwhile, so that a gap would count
    // them as lost.
    absl::optional<ShipBatch> unanswered;
    bool busy = false;
    int failures = 0;
    // Since when nothing but the end of the shim is awaited.
    absl::optional<BootTime> awaits_shim_since;
    Strand::TimerId timer = 0;
    // Changes when the entry is made anew, so that late answers are known.
    uint64_t number = 0;
  };

  Shipment* Find(const session::TaskId& id, uint64_t number);
  void Next(const session::TaskId& id);
  void ReadCursor(const session::TaskId& id, Shipment& task);
  void OnBatch(const session::TaskId& id, uint64_t number, bool final_read,
               absl::StatusOr<ShipBatch> batch);
  void AppendLog(const session::TaskId& id, uint64_t number, ShipBatch batch);
  void AppendMetrics(const session::TaskId& id, uint64_t number, ShipBatch batch);
  void Acknowledged(const session::TaskId& id, uint64_t number, ShipBatch batch);
  void Unanswered(const session::TaskId& id, Shipment& task, ShipBatch batch);
  void AwaitShim(const session::TaskId& id, Shipment& task);
  void Later(const session::TaskId& id, Shipment& task, absl::Duration delay);
  void Failed(const session::TaskId& id, Shipment& task);
  std::string StreamOf(const ShipLogs& order, const char* name) const;

  const Options options_;
  Strand* const strand_;
  Strand* const files_;
  store::Store* const store_;
  LogSink* const sink_;
  const std::function<void(const session::TaskId&)> shipped_;
  absl::optional<metrics::Counter> records_;
  absl::optional<metrics::Counter> gaps_;
  uint64_t last_number_ = 0;
  std::map<session::TaskId, Shipment> tasks_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_LOG_SHIPPER_H_
