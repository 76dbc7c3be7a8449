#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_STREAMS_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_STREAMS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/ports/response_sink.h"

namespace capstan::telemetry {

// Where the records go that one reader asked for.
using RecordSink = ResponseSink<v1::ReadRecordsResponse>;

// Records for one Stream, in order.
struct StreamAppend {
  std::string stream;
  std::vector<v1::Record> records;
};

// What an append has done.
struct Appended {
  // Offset of the last record of the Stream that is on disk.
  int64_t last_offset = 0;
  // Records that were there already.
  int32_t duplicates = 0;
};

// One for each append, in their order.
using AppendResults = std::vector<absl::StatusOr<Appended>>;

// What the handlers ask of the engine, on its strand.
class Streams {
 public:
  virtual ~Streams() = default;

  // Appends to Streams, none of them twice. Answered once all is on disk that was appended; readers
  // that follow the Streams get it.
  virtual void Append(std::vector<StreamAppend> appends,
                      absl::AnyInvocable<void(AppendResults)> done) = 0;
  // Serves a checked request until its end, or, if it follows, until the reader goes or the service
  // stops.
  virtual void OpenReader(v1::ReadRecordsRequest request, std::unique_ptr<RecordSink> sink) = 0;
  // Which records are on disk. A Stream that no one has appended to begins and ends at 1.
  virtual void FindExtent(std::string stream,
                          absl::AnyInvocable<void(absl::StatusOr<StreamExtent>)> done) = 0;
  // From now on retention leaves at least the newest segment of these Streams, so that their
  // offsets go on; of others no longer.
  virtual void KeepNewest(std::set<std::string> streams) = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_STREAMS_H_
