#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/shim/log_frame.h"

// The bytes of a segment are the platform's own, but a torn or damaged file must not end its
// reader.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  absl::string_view rest(reinterpret_cast<const char*>(bytes), size);
  capstan::nodeagent::v1::ShimLogRecord record;
  size_t taken = 0;
  while (capstan::node_agent::ParseLogFrame(rest, &record, &taken) ==
         capstan::node_agent::LogFrame::kWhole) {
    if (taken == 0 || taken > rest.size()) abort();
    rest.remove_prefix(taken);
  }
  return 0;
}
