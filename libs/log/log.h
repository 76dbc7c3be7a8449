// Structured logging: a constant message plus keys with values, so that records can be counted and
// searched by message. A Logger is passed in like any other dependency; there is no global one.
//
//   log->Info("job placed", {{"job", name}, {"nodes", nodes.size()}});
//   log->Warning("join refused", {log::Secret("token"), {"error", status}});
#ifndef CAPSTAN_LIBS_LOG_LOG_H_
#define CAPSTAN_LIBS_LOG_LOG_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// `debug`, `info`, `warning`, `error`.
absl::string_view LevelName(Level level);

// One key with its value. Keys are snake_case and name units where there are any.
class Field {
 public:
  Field(absl::string_view key, absl::string_view value) : Field(key, value, /*quoted=*/true) {}
  Field(absl::string_view key, const char* value) : Field(key, absl::string_view(value)) {}
  Field(absl::string_view key, const std::string& value) : Field(key, absl::string_view(value)) {}
  Field(absl::string_view key, bool value) : Field(key, value ? "true" : "false", false) {}
  Field(absl::string_view key, double value);
  Field(absl::string_view key, absl::Duration value);
  Field(absl::string_view key, absl::Time value);
  // `CODE: message [REASON]`; payloads stay out.
  Field(absl::string_view key, const absl::Status& value);
  template <std::integral Integer>
  Field(absl::string_view key, Integer value)
      : Field(key, absl::string_view(std::to_string(value)), false) {}

  const std::string& key() const { return key_; }
  // Text of the value, not escaped.
  const std::string& text() const { return text_; }
  // False if the text is a JSON number or boolean.
  bool quoted() const { return quoted_; }

 private:
  Field(absl::string_view key, absl::string_view text, bool quoted)
      : key_(key), text_(text), quoted_(quoted) {}

  std::string key_;
  std::string text_;
  bool quoted_ = true;
};

// Says that a secret was there; its value never reaches the logger. Longer names than `key` are
// guarded too: a Field whose key ends in token, secret, password or private_key is written redacted
// whatever its value.
Field Secret(absl::string_view key);

// What reaches a sink.
struct Record {
  absl::Time time;
  Level level = Level::kInfo;
  // Dotted name of the part, e.g. `scheduler.engine`.
  std::string logger;
  std::string message;
  // Context first, then the call's own.
  std::vector<Field> fields;
};

enum class Format { kHuman, kJson };

// One line without its end. Control bytes are escaped in both formats, so that no value can forge
// a line.
std::string FormatRecord(const Record& record, Format format);

// Takes records. Thread-safe, and does not throw or fail.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void Write(const Record& record) = 0;
};

// Makes records and gives those of its level and above to a sink. Thread-safe and cheap to copy.
class Logger {
 public:
  // `clock` and `sink` must outlive the logger and all made from it.
  Logger(absl::string_view name, const Clock* clock, Sink* sink, Level level = Level::kInfo)
      : name_(name), clock_(clock), sink_(sink), level_(level) {}

  // A logger for a part (`<name>.<part>`) whose every record also carries `fields`.
  Logger With(absl::string_view part, std::vector<Field> fields = {}) const;

  void Debug(absl::string_view message, std::initializer_list<Field> fields = {}) const {
    Log(Level::kDebug, message, fields);
  }
  void Info(absl::string_view message, std::initializer_list<Field> fields = {}) const {
    Log(Level::kInfo, message, fields);
  }
  void Warning(absl::string_view message, std::initializer_list<Field> fields = {}) const {
    Log(Level::kWarning, message, fields);
  }
  void Error(absl::string_view message, std::initializer_list<Field> fields = {}) const {
    Log(Level::kError, message, fields);
  }
  bool enabled(Level level) const { return level >= level_; }

 private:
  void Log(Level level, absl::string_view message, std::initializer_list<Field> fields) const;

  std::string name_;
  const Clock* clock_;
  Sink* sink_;
  Level level_;
  std::vector<Field> context_;
};

}  // namespace capstan::log

#endif  // CAPSTAN_LIBS_LOG_LOG_H_
