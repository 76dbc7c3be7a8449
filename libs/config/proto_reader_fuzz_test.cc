#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "libs/config/proto_reader.h"
#include "libs/config/testing.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  capstan::config::testing::Everything message;
  capstan::config::SourceMap source_map;
  if (capstan::config::ReadProto(text, "fuzz", &message, &source_map).ok()) {
    // What was accepted must be a message that can be sent.
    capstan::config::testing::Everything again;
    if (!again.ParseFromString(message.SerializeAsString())) std::abort();
  }
  return 0;
}
