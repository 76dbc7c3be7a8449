// Any bytes in any pieces: the events and the error are those of the bytes in one piece, and no
// more is held than the bound and a piece.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/watch/decoder.h"

namespace capstan::kube::watch {
namespace {

constexpr size_t kMaxEventBytes = 512;

template <typename AnyDecoder>
std::vector<std::string> Decode(absl::string_view bytes, size_t piece) {
  AnyDecoder decoder(kMaxEventBytes);
  std::vector<std::string> out;
  while (true) {
    const auto event = decoder.Next();
    if (!event.ok()) {
      out.push_back("error");
      return out;
    }
    if (event->has_value()) {
      const Event& e = **event;
      fuzzing::Require(e.object.size() <= kMaxEventBytes);
      out.push_back(absl::StrCat(static_cast<int>(e.type), "|", e.object, "|", e.api_version, "|",
                                 e.kind, "|", e.resource_version, "|", e.initial_events_end, "|",
                                 e.status.code, "|", e.status.reason, "|", e.status.message));
      continue;
    }
    fuzzing::Require(decoder.buffered() <= kMaxEventBytes + 4);
    if (bytes.empty()) break;
    const absl::string_view chunk = bytes.substr(0, piece);
    decoder.Append(chunk);
    bytes.remove_prefix(chunk.size());
  }
  if (!decoder.Finish().ok()) out.push_back("error");
  return out;
}

}  // namespace
}  // namespace capstan::kube::watch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  using capstan::kube::watch::Decode;
  using capstan::kube::watch::JsonDecoder;
  using capstan::kube::watch::ProtobufDecoder;
  capstan::fuzzing::FuzzInput input(data, size);
  const bool json = input.Flag();
  const size_t piece = 1 + input.Below(100);
  const absl::string_view bytes = input.Rest();
  if (json) {
    Require(Decode<JsonDecoder>(bytes, piece) == Decode<JsonDecoder>(bytes, bytes.size() + 1));
  } else {
    Require(Decode<ProtobufDecoder>(bytes, piece) ==
            Decode<ProtobufDecoder>(bytes, bytes.size() + 1));
  }
  return 0;
}
