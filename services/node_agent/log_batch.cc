// Reading of a Task's log and metrics into records.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "services/node_agent/adapters/task_folder.h"
#include "services/node_agent/log_shipper.h"
#include "services/node_agent/shim/log_reader.h"
#include "services/node_agent/shim/shim.h"
#include "services/node_agent/task_record.h"

namespace capstan::node_agent {

using capstan::telemetry::v1::Record;

namespace {

// Many short lines grow several times as records: a batch must stay below 1 MiB.
constexpr int64_t kLogBytes = 64 * 1024;
constexpr int64_t kMetricsBytes = 32 * 1024;

Record MakeRecord(const ShipLogs& order, const std::string& producer, const char* kind,
                  int64_t sequence) {
  return MakeTaskRecord(order.id, order.rank, producer, kind, sequence);
}

void AddLog(const ShipLogs& order, const std::string& producer, int64_t expected,
            const std::vector<capstan::nodeagent::v1::ShimLogRecord>& lines, ShipBatch* batch) {
  auto& next = batch->next;
  // Of the first record it is known.
  if (expected == 1) next.set_log_next_position(0);
  for (const auto& line : lines) {
    if (line.sequence() > expected) {
      // What was dropped had these sequences, so the gap may bear the last of them.
      Record gap = MakeRecord(order, producer, "gap", line.sequence() - 1);
      capstan::event::v1::GapRecord what;
      what.set_dropped_records(line.sequence() - expected);
      const bool measured = line.has_position() && next.has_log_next_position() &&
                            line.position() >= next.log_next_position();
      what.set_dropped_bytes(measured ? line.position() - next.log_next_position()
                                      : line.dropped_bytes());
      what.set_reason("SPILL_FULL");
      gap.set_payload(what.SerializeAsString());
      batch->log.push_back(std::move(gap));
    }
    expected = line.sequence() + 1;
    if (line.has_position()) {
      next.set_log_next_position(line.position() + static_cast<int64_t>(line.line().size()));
    } else {
      next.clear_log_next_position();
    }
    Record record = MakeRecord(order, producer, "log", line.sequence());
    record.set_payload(line.line());
    record.mutable_event_time()->set_seconds(line.time_us() / 1'000'000);
    record.mutable_event_time()->set_nanos(
        static_cast<int32_t>(line.time_us() % 1'000'000 * 1'000));
    (*record.mutable_attributes())["stream"] = line.fd() == 2 ? "stderr" : "stdout";
    if (line.partial()) (*record.mutable_attributes())["partial"] = "true";
    batch->log.push_back(std::move(record));
  }
}

// Says that nothing of the Task's log comes after it. Its sequence is the one that the next line
// would have had, so that telemetry drops it when it is sent again.
Record MakeLogEnd(const ShipLogs& order, const std::string& producer, int64_t next_sequence) {
  return MakeRecord(order, producer, "end", std::max<int64_t>(next_sequence, 1));
}

bool IsMetric(absl::string_view line) {
  const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (!json.is_object() || json.size() != 3) return false;
  const auto step = json.find("step");
  const auto name = json.find("name");
  const auto value = json.find("value");
  if (step == json.end() || !step->is_number_integer() || name == json.end() ||
      !name->is_string() || value == json.end() || !value->is_number() ||
      !std::isfinite(value->get<double>())) {
    return false;
  }
  const std::string& text = name->get_ref<const std::string&>();
  return !text.empty() && text.size() <= 100 && (absl::ascii_isalpha(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
         });
}

absl::Status ReadMetrics(const ShipLogs& order, const std::string& producer, ShipBatch* batch) {
  // The folder is the Task's: the file may be a link to anything.
  const absl::StatusOr<SafeRoot> folder = SafeRoot::Open(order.folder + "/metrics");
  if (!folder.ok()) return absl::IsNotFound(folder.status()) ? absl::OkStatus() : folder.status();
  const absl::StatusOr<UniqueFd> file = folder->OpenFile("metrics.jsonl", O_RDONLY | O_NONBLOCK);
  // Absent, or made into something that is not ours to read.
  if (!file.ok()) return absl::OkStatus();
  struct stat about;
  if (fstat(file->get(), &about) != 0 || !S_ISREG(about.st_mode)) return absl::OkStatus();
  const int64_t from = batch->next.metrics_offset();
  std::string bytes(kMetricsBytes, '\0');
  const ssize_t got = pread(file->get(), bytes.data(), bytes.size(), from);
  if (got <= 0) return absl::OkStatus();
  bytes.resize(static_cast<size_t>(got));
  size_t begin = 0;
  for (size_t end; (end = bytes.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const absl::string_view line(bytes.data() + begin, end - begin);
    if (line.size() > 4096 || !IsMetric(line)) continue;
    // Offsets rise with every line, so they serve as sequences.
    Record record = MakeRecord(order, producer, "metric", from + static_cast<int64_t>(end) + 1);
    record.set_payload(std::string(line));
    batch->metrics.push_back(std::move(record));
  }
  // A line longer than the buffer can be no metric.
  if (begin == 0 && got == kMetricsBytes) begin = static_cast<size_t>(got);
  batch->next.set_metrics_offset(from + static_cast<int64_t>(begin));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ShipBatch> ReadShipBatch(const ShipLogs& order, const std::string& producer,
                                        const capstan::nodeagent::record::v1::Cursor& cursor) {
  ShipBatch batch;
  batch.next = cursor;
  // Looked at before the log is read: what is there then is all, if none may write.
  batch.awaits_shim = order.ended && MayShimWrite(order.folder);
  LogCursor from;
  if (cursor.log_next_sequence() > 0) {
    from = LogCursor{cursor.log_segment(), cursor.log_offset(), cursor.log_next_sequence()};
  }
  const std::string folder = absl::StrCat(order.folder, "/", kLogFolder);
  if (access(folder.c_str(), F_OK) == 0) {
    CAPSTAN_ASSIGN_OR_RETURN(const LogBatch read, ReadLog(folder, from, kLogBytes));
    AddLog(order, producer, from.next_sequence, read.records, &batch);
    batch.next.set_log_segment(read.next.segment);
    batch.next.set_log_offset(read.next.offset);
    batch.next.set_log_next_sequence(read.next.next_sequence);
    // All was read before; and the end has the sequence that the next line would have.
    const bool whole = read.next.segment == from.segment && read.next.offset == from.offset &&
                       read.next.next_sequence == from.next_sequence;
    if (order.ended && !batch.awaits_shim && whole && !cursor.log_closed()) {
      batch.log.push_back(MakeLogEnd(order, producer, read.next.next_sequence));
      batch.next.set_log_closed(true);
    }
  }
  CAPSTAN_RETURN_IF_ERROR(ReadMetrics(order, producer, &batch));
  return batch;
}

}  // namespace capstan::node_agent
