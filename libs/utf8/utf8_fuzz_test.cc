// Any bytes: what is a character is decided as another parser decides it, and what comes out is
// text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/wrappers.pb.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/utf8/utf8.h"

namespace {

// protobuf refuses a string field that is no UTF-8.
bool ProtobufTakes(const std::string& text) {
  google::protobuf::BytesValue bytes;
  bytes.set_value(text);
  google::protobuf::StringValue value;
  return value.ParseFromString(bytes.SerializeAsString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const bool is_text = capstan::IsUtf8(bytes);
  Require(is_text == ProtobufTakes(bytes));
  const std::string text = capstan::ToUtf8(bytes);
  Require(capstan::IsUtf8(text) && (text == bytes) == is_text);
  Require(text.size() <= 3 * bytes.size());
  // Nothing that is a character is lost, and nothing else is added.
  absl::string_view rest = bytes;
  absl::string_view made = text;
  while (!rest.empty()) {
    const size_t length = capstan::CharacterLength(rest);
    Require(length <= 4 && length <= rest.size());
    const absl::string_view expected =
        length == 0 ? absl::string_view("\uFFFD") : rest.substr(0, length);
    Require(made.substr(0, expected.size()) == expected);
    made.remove_prefix(expected.size());
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  Require(made.empty());
  return 0;
}
