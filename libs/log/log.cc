#include "libs/log/log.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/status/error.h"

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

// Escapes as JSON does; bytes above 0x7f pass, since values are UTF-8 by convention.
void AppendEscaped(absl::string_view text, std::string* out) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out->append("\\\"");
        break;
      case '\\':
        out->append("\\\\");
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\r':
        out->append("\\r");
        break;
      case '\t':
        out->append("\\t");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned char>(c));
        } else {
          out->push_back(c);
        }
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
  for (const char c : text) {
    if (c == ' ' || c == '"' || c == '=' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ||
        c == 0x7f) {
      return true;
    }
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
