// The folder that a Task writes its metrics to, with anything in it: reading comes to an end, and
// what is shipped is a metric as docs/task_contract.md says, and bounded.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/node_agent/core/step.h"
#include "services/node_agent/cursor.pb.h"
#include "services/node_agent/log_shipper.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  namespace node_agent = capstan::node_agent;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const capstan::fuzzing::FuzzFolder folder;
  folder.Write("metrics/metrics.jsonl", text);
  folder.Write("log/00000000000000000001.log", text);
  node_agent::ShipLogs order;
  order.id = {"job", 1, "g", 0};
  order.folder = folder.path();
  order.ended = true;
  capstan::nodeagent::record::v1::Cursor cursor;
  for (int calls = 0;; ++calls) {
    const absl::StatusOr<node_agent::ShipBatch> batch =
        node_agent::ReadShipBatch(order, "c/n", cursor);
    Require(batch.ok());
    int64_t last = cursor.metrics_offset();
    for (const capstan::telemetry::v1::Record& record : batch->metrics) {
      Require(record.kind() == "metric" && record.producer_sequence() > last);
      last = record.producer_sequence();
      Require(absl::StrContains(text, record.payload()) && record.payload().size() <= 4096);
      Require(absl::StrContains(record.payload(), "step"));
    }
    Require(batch->next.metrics_offset() >= cursor.metrics_offset() &&
            batch->next.metrics_offset() <= static_cast<int64_t>(size));
    if (batch->log.empty() && batch->metrics.empty()) break;
    Require(calls < 10);
    cursor = batch->next;
  }
  return 0;
}
