// Log records with anything in them, as peers' names and errors may have: each is one line, which
// as JSON gives back what was logged, and nothing in it is obeyed by a terminal.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/log/log.h"
#include "libs/utf8/utf8.h"
#include "nlohmann/json.hpp"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::log::Field;
using capstan::log::Format;
using capstan::log::Record;

void CheckShown(absl::string_view line) {
  while (!line.empty()) {
    const size_t length = capstan::CharacterLength(line);
    Require(length > 0 && !capstan::IsControl(line.substr(0, length)));
    line.remove_prefix(length);
  }
}

bool NamesSecret(const std::string& key) {
  const std::string lower = absl::AsciiStrToLower(key);
  return absl::EndsWith(lower, "token") || absl::EndsWith(lower, "secret") ||
         absl::EndsWith(lower, "password") || absl::EndsWith(lower, "private_key");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Record record;
  record.time = absl::FromUnixMicros(input.Number());
  record.level = static_cast<capstan::log::Level>(input.Below(4));
  record.logger = std::string(input.Bytes(input.Below(20)));
  record.message = std::string(input.Bytes(input.Below(60)));
  for (size_t count = input.Below(5); count > 0; --count) {
    // A key that comes twice would be read once.
    const std::string key = std::to_string(count) + std::string(input.Bytes(input.Below(12)));
    switch (input.Below(4)) {
      case 0:
        record.fields.emplace_back(key, input.Number());
        break;
      case 1:
        record.fields.emplace_back(key, static_cast<double>(input.Number()) / 7);
        break;
      case 2:
        record.fields.emplace_back(key, input.Flag());
        break;
      default:
        record.fields.emplace_back(key, input.Bytes(input.Below(80)));
    }
  }
  CheckShown(FormatRecord(record, Format::kHuman));
  const std::string line = FormatRecord(record, Format::kJson);
  CheckShown(line);
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  Require(json.is_object() && json.size() == 4 + record.fields.size());
  Require(json["logger"] == capstan::ToUtf8(record.logger));
  Require(json["message"] == capstan::ToUtf8(record.message));
  for (const Field& field : record.fields) {
    const auto& value = json[capstan::ToUtf8(field.key())];
    if (NamesSecret(field.key())) {
      Require(value == "[redacted]");
    } else if (field.quoted()) {
      Require(value == capstan::ToUtf8(field.text()));
    } else {
      Require(value.is_number() || value.is_boolean());
    }
  }
  return 0;
}
