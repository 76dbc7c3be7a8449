#ifndef CAPSTAN_LIBS_LOG_SPDLOG_SINK_H_
#define CAPSTAN_LIBS_LOG_SPDLOG_SINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/log/log.h"

namespace capstan::log {

// Writes to standard error, a line at a time.
std::unique_ptr<Sink> MakeStderrSink(Format format);

struct FileSinkOptions {
  std::string path;
  Format format = Format::kJson;
  // The file is rotated to `<path>.1`, `.2`, … at this size; older ones are removed.
  int64_t max_bytes = 64 << 20;
  int max_files = 3;
};

// Appends to a file, flushed at each record, so that the last words of a dying process are there.
absl::StatusOr<std::unique_ptr<Sink>> MakeFileSink(const FileSinkOptions& options);

}  // namespace capstan::log

#endif  // CAPSTAN_LIBS_LOG_SPDLOG_SINK_H_
