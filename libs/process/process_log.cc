#include "libs/process/process_log.h"

#include <unistd.h>

#include <utility>

#include "libs/log/spdlog_sink.h"
#include "libs/status/status_macros.h"

namespace capstan::process {
namespace {

log::Level LevelOf(config::v1::Log::Level level) {
  switch (level) {
    case config::v1::Log::LEVEL_DEBUG:
      return log::Level::kDebug;
    case config::v1::Log::LEVEL_WARNING:
      return log::Level::kWarning;
    case config::v1::Log::LEVEL_ERROR:
      return log::Level::kError;
    default:
      return log::Level::kInfo;
  }
}

absl::StatusOr<std::unique_ptr<log::Sink>> OpenSink(const config::v1::Log& config) {
  const log::Format format =
      config.format() == config::v1::Log::FORMAT_JSON ? log::Format::kJson : log::Format::kHuman;
  if (config.file().empty() || isatty(STDERR_FILENO) == 1) return log::MakeStderrSink(format);
  return log::MakeFileSink({.path = config.file(), .format = format});
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessLog>> ProcessLog::Open(const config::v1::Log& config) {
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<log::Sink> sink, OpenSink(config));
  return std::make_unique<ProcessLog>(std::move(sink), config.level());
}

ProcessLog::ProcessLog(std::unique_ptr<log::Sink> sink, config::v1::Log::Level level)
    : sink_(std::move(sink)), level_(LevelOf(level)) {}

void ProcessLog::Write(const log::Record& record) {
  if (record.level >= level()) sink_->Write(record);
}

void ProcessLog::SetLevel(config::v1::Log::Level level) {
  level_.store(LevelOf(level), std::memory_order_relaxed);
}

}  // namespace capstan::process
