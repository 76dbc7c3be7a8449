#include "libs/log/spdlog_sink.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/rotating_file_sink.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace capstan::log {
namespace {

spdlog::level::level_enum SpdlogLevel(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

class SpdlogSink final : public Sink {
 public:
  SpdlogSink(Format format, spdlog::sink_ptr sink) : format_(format), logger_("", sink) {
    // Records come formatted; spdlog adds the line's end.
    logger_.set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
    logger_.set_level(spdlog::level::trace);
    logger_.flush_on(spdlog::level::trace);
    // A full disk must not flood standard error.
    logger_.set_error_handler([](const std::string&) {});
  }

  void Write(const Record& record) override {
    const std::string line = FormatRecord(record, format_);
    logger_.log(SpdlogLevel(record.level), spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  const Format format_;
  spdlog::logger logger_;
};

}  // namespace

std::unique_ptr<Sink> MakeStderrSink(Format format) {
  return std::make_unique<SpdlogSink>(format, std::make_shared<spdlog::sinks::stderr_sink_mt>());
}

absl::StatusOr<std::unique_ptr<Sink>> MakeFileSink(const FileSinkOptions& options) {
  try {
    auto sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        options.path, static_cast<size_t>(options.max_bytes),
        static_cast<size_t>(options.max_files));
    return std::make_unique<SpdlogSink>(options.format, std::move(sink));
  } catch (const spdlog::spdlog_ex& error) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "LOG_FILE_NOT_WRITABLE",
                         absl::StrCat("cannot log to ", options.path, ": ", error.what()),
                         {{"path", options.path}});
  }
}

}  // namespace capstan::log
