#include "services/node_agent/log_shipper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/session/lower_side.h"
#include "services/node_agent/adapters/task_folder.h"
#include "services/node_agent/core/keys.h"
#include "services/node_agent/shim/log_reader.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {

using session::TaskId;

LogShipper::LogShipper(Options options, Strand* strand, Strand* files, store::Store* store,
                       LogSink* sink, std::function<void(const TaskId&)> shipped,
                       metrics::Registry* registry)
    : options_(std::move(options)),
      strand_(strand),
      files_(files),
      store_(store),
      sink_(sink),
      shipped_(std::move(shipped)) {
  if (registry != nullptr) {
    records_ = registry->AddCounter("log_records_shipped_total",
                                    "Log and metric records acknowledged by telemetry");
    gaps_ = registry->AddCounter(
        "log_gaps_total", "Gaps in Tasks' logs, whose spill was full, shipped in their place");
  }
}

LogShipper::~LogShipper() {
  for (auto& [id, task] : tasks_) {
    if (task.timer != 0) strand_->Cancel(task.timer);
  }
}

void LogShipper::Ship(const ShipLogs& order) {
  Shipment& task = tasks_[order.id];
  if (task.number == 0) task.number = ++last_number_;
  const bool news = order.ended && !task.order.ended;
  const bool ended = task.order.ended || order.ended;
  task.order = order;
  task.order.ended = ended;
  if (!task.busy && (task.timer == 0 || news)) Next(order.id);
}

void LogShipper::Drop(const TaskId& id) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) return;
  if (it->second.timer != 0) strand_->Cancel(it->second.timer);
  tasks_.erase(it);
}

LogShipper::Shipment* LogShipper::Find(const TaskId& id, uint64_t number) {
  const auto it = tasks_.find(id);
  return it == tasks_.end() || it->second.number != number ? nullptr : &it->second;
}

void LogShipper::Next(const TaskId& id) {
  Shipment& task = tasks_.at(id);
  if (task.timer != 0) strand_->Cancel(task.timer);
  task.timer = 0;
  task.busy = true;
  if (!task.cursor.has_value()) return ReadCursor(id, task);
  if (task.unanswered.has_value()) {
    ShipBatch again = *std::move(task.unanswered);
    task.unanswered.reset();
    return AppendLog(id, task.number, std::move(again));
  }
  const std::weak_ptr<char> alive = alive_;
  files_->Post([this, alive, strand = strand_, id, number = task.number, order = task.order,
                cursor = *task.cursor, producer = options_.producer] {
    absl::StatusOr<ShipBatch> batch = ReadShipBatch(order, producer, cursor);
    strand->Post(
        [this, alive, id, number, ended = order.ended, batch = std::move(batch)]() mutable {
          if (!alive.expired()) OnBatch(id, number, ended, std::move(batch));
        });
  });
}

void LogShipper::ReadCursor(const TaskId& id, Shipment& task) {
  store_->Range(store::RangeRequest{.key = CursorKey(id)},
                [this, alive = std::weak_ptr<char>(alive_), id,
                 number = task.number](absl::StatusOr<store::RangeResult> found) {
                  if (alive.expired()) return;
                  Shipment* task = Find(id, number);
                  if (task == nullptr) return;
                  if (!found.ok()) return Failed(id, *task);
                  task->cursor.emplace();
                  // A cursor that cannot be read begins anew: telemetry drops what it has.
                  if (!found->kvs.empty() && !task->cursor->ParseFromString(found->kvs[0].value)) {
                    task->cursor->Clear();
                  }
                  Next(id);
                });
}

void LogShipper::OnBatch(const TaskId& id, uint64_t number, bool final_read,
                         absl::StatusOr<ShipBatch> batch) {
  Shipment* task = Find(id, number);
  if (task == nullptr) return;
  if (!batch.ok()) return Failed(id, *task);
  const bool moved = session::SerializeDeterministic(batch->next) !=
                     session::SerializeDeterministic(*task->cursor);
  if (batch->log.empty() && batch->metrics.empty() && !moved) {
    task->failures = 0;
    if (final_read && batch->awaits_shim) return AwaitShim(id, *task);
    if (final_read) {
      Drop(id);
      shipped_(id);
      return;
    }
    task->busy = false;
    // The end may have been ordered while the file was read.
    return Later(id, *task, task->order.ended ? absl::ZeroDuration() : options_.poll);
  }
  task->awaits_shim_since.reset();
  AppendLog(id, number, *std::move(batch));
}

void LogShipper::AwaitShim(const TaskId& id, Shipment& task) {
  const BootTime now = strand_->clock().Read().boot;
  if (!task.awaits_shim_since.has_value()) task.awaits_shim_since = now;
  if (now - *task.awaits_shim_since >= options_.last_words) {
    files_->Post([folder = task.order.folder] { KillShim(folder); });
  }
  task.busy = false;
  Later(id, task, options_.poll);
}

std::string LogShipper::StreamOf(const ShipLogs& order, const char* name) const {
  return absl::StrCat(order.job, "/streams/", name);
}

void LogShipper::AppendLog(const TaskId& id, uint64_t number, ShipBatch batch) {
  if (batch.log.empty()) return AppendMetrics(id, number, std::move(batch));
  std::vector<capstan::telemetry::v1::Record> records = batch.log;
  sink_->Append(StreamOf(Find(id, number)->order, "log"), std::move(records),
                [this, alive = std::weak_ptr<char>(alive_), id, number,
                 batch = std::move(batch)](absl::Status status) mutable {
                  if (alive.expired()) return;
                  Shipment* task = Find(id, number);
                  if (task == nullptr) return;
                  if (!status.ok()) return Unanswered(id, *task, std::move(batch));
                  AppendMetrics(id, number, std::move(batch));
                });
}

void LogShipper::AppendMetrics(const TaskId& id, uint64_t number, ShipBatch batch) {
  if (batch.metrics.empty()) return Acknowledged(id, number, std::move(batch));
  std::vector<capstan::telemetry::v1::Record> records = batch.metrics;
  sink_->Append(StreamOf(Find(id, number)->order, "metrics"), std::move(records),
                [this, alive = std::weak_ptr<char>(alive_), id, number,
                 batch = std::move(batch)](absl::Status status) mutable {
                  if (alive.expired()) return;
                  Shipment* task = Find(id, number);
                  if (task == nullptr) return;
                  if (!status.ok()) return Unanswered(id, *task, std::move(batch));
                  Acknowledged(id, number, std::move(batch));
                });
}

void LogShipper::Acknowledged(const TaskId& id, uint64_t number, ShipBatch batch) {
  if (records_.has_value()) {
    records_->Increment(static_cast<double>(batch.log.size() + batch.metrics.size()));
    gaps_->Increment(static_cast<double>(
        std::count_if(batch.log.begin(), batch.log.end(),
                      [](const auto& record) { return record.kind() == "gap"; })));
  }
  CrashPoint(crash::kAgentLinesAcknowledged);
  store::TxnRequest txn;
  txn.then.push_back(store::Put{CursorKey(id), session::SerializeDeterministic(batch.next)});
  store_->Txn(
      std::move(txn), [this, alive = std::weak_ptr<char>(alive_), id, number,
                       batch = std::move(batch)](absl::StatusOr<store::TxnResult> stored) mutable {
        if (alive.expired()) return;
        Shipment* task = Find(id, number);
        if (task == nullptr) return;
        if (!stored.ok()) return Unanswered(id, *task, std::move(batch));
        CrashPoint(crash::kAgentCursorStored);
        const capstan::nodeagent::record::v1::Cursor& next = batch.next;
        task->cursor = next;
        task->failures = 0;
        // What is shipped need not stay; a failure only leaves it until the Task goes.
        files_->Post(
            [folder = absl::StrCat(task->order.folder, "/", kLogFolder),
             cursor = LogCursor{next.log_segment(), next.log_offset(), next.log_next_sequence()}] {
              RemoveShippedSegments(folder, cursor).IgnoreError();
            });
        Next(id);
      });
}

void LogShipper::Unanswered(const TaskId& id, Shipment& task, ShipBatch batch) {
  task.unanswered = std::move(batch);
  Failed(id, task);
}

void LogShipper::Failed(const TaskId& id, Shipment& task) {
  task.busy = false;
  const absl::Duration delay = std::min(
      absl::Milliseconds(500) * (int64_t{1} << std::min(task.failures, 8)), options_.max_back_off);
  ++task.failures;
  Later(id, task, delay);
}

void LogShipper::Later(const TaskId& id, Shipment& task, absl::Duration delay) {
  task.timer = strand_->RunAfter(
      delay, [this, alive = std::weak_ptr<char>(alive_), id, number = task.number] {
        if (alive.expired()) return;
        Shipment* task = Find(id, number);
        if (task == nullptr) return;
        task->timer = 0;
        Next(id);
      });
}

}  // namespace capstan::node_agent
