#ifndef CAPSTAN_LIBS_PROCESS_PROCESS_LOG_H_
#define CAPSTAN_LIBS_PROCESS_PROCESS_LOG_H_

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/log/log.h"
#include "proto/capstan/config/v1/process.pb.h"

namespace capstan::process {

// A process' log as its configuration says: lets only records of a level and above through, which
// may change at any time. Any thread.
class ProcessLog final : public log::Sink {
 public:
  // In the configured file; on standard error where there is none, or where that is a terminal,
  // since a process that is started by hand logs where its starter looks.
  static absl::StatusOr<std::unique_ptr<ProcessLog>> Open(const config::v1::Log& config);

  ProcessLog(std::unique_ptr<log::Sink> sink, config::v1::Log::Level level);

  void Write(const log::Record& record) override;
  void SetLevel(config::v1::Log::Level level);
  log::Level level() const { return level_.load(std::memory_order_relaxed); }

 private:
  const std::unique_ptr<log::Sink> sink_;
  std::atomic<log::Level> level_;
};

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_PROCESS_LOG_H_
