// What a Task sends to its agent's socket, and errors with any bytes in them: a request is read as
// it was written or refused, and every answer is one line of JSON.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "nlohmann/json.hpp"
#include "services/node_agent/adapters/checkpoint_text.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::node_agent::CheckpointText;
using capstan::node_agent::ParseCheckpoint;

nlohmann::json ParseLine(const std::string& line) {
  Require(line.find('\n') == line.size() - 1);
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  Require(object.is_object());
  return object;
}

void CheckRequest(absl::string_view body) {
  const absl::optional<CheckpointText> request = ParseCheckpoint(body);
  if (!request.has_value()) return;
  const nlohmann::json written = {{"dir", request->directory}, {"step", request->step}};
  const absl::optional<CheckpointText> again = ParseCheckpoint(written.dump());
  Require(again.has_value() && again->directory == request->directory &&
          again->step == request->step);
  // The number as it stands, whatever its size.
  const auto object = nlohmann::json::parse(body.begin(), body.end(), nullptr, false);
  Require(object["step"] == request->step);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  switch (input.Below(3)) {
    case 0:
      CheckRequest(input.Rest());
      break;
    case 1: {
      const int64_t step = input.Number();
      const nlohmann::json line = ParseLine(capstan::node_agent::CommittedText(step, input.Rest()));
      Require(line["step"] == step && line["manifest_digest"].is_string());
      break;
    }
    default: {
      const absl::string_view reason = input.Bytes(input.Below(20));
      const nlohmann::json line =
          ParseLine(capstan::node_agent::ErrorText(input.Byte(), reason, input.Rest()));
      Require(line["reason"].is_string() && line["message"].is_string());
    }
  }
  return 0;
}
