#include "libs/log/log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/status/error.h"
#include "libs/utf8/utf8.h"

namespace capstan::log {
namespace {

constexpr char kRedacted[] = "[redacted]";
constexpr std::array<absl::string_view, 4> kSecretSuffixes = {"token", "secret", "password",
                                                              "private_key"};

bool NamesSecret(absl::string_view key) {
  const std::string lower = absl::AsciiStrToLower(key);
  for (const absl::string_view suffix : kSecretSuffixes) {
    if (absl::EndsWith(lower, suffix)) return true;
  }
  return false;
}

// The code point of a control character.
int ControlNumber(absl::string_view control) {
  if (control == "\u2028") return 0x2028;
  if (control == "\u2029") return 0x2029;
  return static_cast<unsigned char>(control.back());
}

// Escapes as JSON does. What is no UTF-8 is shown as U+FFFD, and no control character passes:
// values come from outside, and neither a line nor a terminal's command may be forged by one.
void AppendEscaped(absl::string_view text, std::string* out) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const absl::string_view character = length == 0 ? "\uFFFD" : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
    if (character == "\"" || character == "\\") {
      absl::StrAppend(out, "\\", character);
    } else if (character == "\n") {
      out->append("\\n");
    } else if (character == "\r") {
      out->append("\\r");
    } else if (character == "\t") {
      out->append("\\t");
    } else if (IsControl(character)) {
      absl::StrAppendFormat(out, "\\u%04x", ControlNumber(character));
    } else {
      absl::StrAppend(out, character);
    }
  }
}

void AppendQuoted(absl::string_view text, std::string* out) {
  out->push_back('"');
  AppendEscaped(text, out);
  out->push_back('"');
}

bool NeedsQuotes(absl::string_view text) {
  if (text.empty()) return true;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const absl::string_view character = text.substr(0, length);
    if (length == 0 || character == " " || character == "\"" || character == "=" ||
        character == "\\" || IsControl(character)) {
      return true;
    }
    text.remove_prefix(length);
  }
  return false;
}

std::string FormatUtc(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

void AppendHumanValue(const Field& field, std::string* out) {
  if (NamesSecret(field.key())) {
    out->append(kRedacted);
  } else if (NeedsQuotes(field.text())) {
    AppendQuoted(field.text(), out);
  } else {
    out->append(field.text());
  }
}

void AppendJsonValue(const Field& field, std::string* out) {
  if (NamesSecret(field.key())) {
    AppendQuoted(kRedacted, out);
  } else if (field.quoted()) {
    AppendQuoted(field.text(), out);
  } else {
    out->append(field.text());
  }
}

}  // namespace

absl::string_view LevelName(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "error";
}

// JSON has no infinities and no NaN, so those are written as text.
Field::Field(absl::string_view key, double value)
    : Field(key, absl::StrFormat("%.6g", value), !std::isfinite(value)) {}

Field::Field(absl::string_view key, absl::Duration value)
    : Field(key, absl::FormatDuration(value), true) {}

Field::Field(absl::string_view key, absl::Time value) : Field(key, FormatUtc(value), true) {}

Field::Field(absl::string_view key, const absl::Status& value) : Field(key, "OK", true) {
  if (value.ok()) return;
  text_ = absl::StrCat(absl::StatusCodeToString(value.code()), ": ", value.message());
  const std::string reason = status::Reason(value);
  if (!reason.empty()) absl::StrAppend(&text_, " [", reason, "]");
}

Field Secret(absl::string_view key) { return Field(key, absl::string_view(kRedacted)); }

std::string FormatRecord(const Record& record, Format format) {
  std::string out;
  if (format == Format::kJson) {
    absl::StrAppend(&out, "{\"time\":\"", FormatUtc(record.time), "\",\"level\":\"",
                    LevelName(record.level), "\",\"logger\":");
    AppendQuoted(record.logger, &out);
    out.append(",\"message\":");
    AppendQuoted(record.message, &out);
    for (const Field& field : record.fields) {
      out.push_back(',');
      AppendQuoted(field.key(), &out);
      out.push_back(':');
      AppendJsonValue(field, &out);
    }
    out.push_back('}');
    return out;
  }
  absl::StrAppend(&out, FormatUtc(record.time), " ",
                  absl::AsciiStrToUpper(LevelName(record.level).substr(0, 1)), " ");
  AppendEscaped(record.logger, &out);
  out.append(": ");
  AppendEscaped(record.message, &out);
  for (const Field& field : record.fields) {
    out.push_back(' ');
    AppendEscaped(field.key(), &out);
    out.push_back('=');
    AppendHumanValue(field, &out);
  }
  return out;
}

Logger Logger::With(absl::string_view part, std::vector<Field> fields) const {
  Logger child = *this;
  if (!part.empty()) child.name_ = absl::StrCat(name_, ".", part);
  for (Field& field : fields) child.context_.push_back(std::move(field));
  return child;
}

void Logger::Log(Level level, absl::string_view message,
                 std::initializer_list<Field> fields) const {
  if (!enabled(level)) return;
  Record record;
  record.time = clock_->Read().wall;
  record.level = level;
  record.logger = name_;
  record.message = std::string(message);
  record.fields = context_;
  record.fields.insert(record.fields.end(), fields.begin(), fields.end());
  sink_->Write(record);
}

}  // namespace capstan::log
