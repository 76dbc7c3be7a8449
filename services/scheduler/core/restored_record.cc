#include "services/scheduler/core/restored_record.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {

void PrepareRestoredRecord(absl::string_view key, std::string* value) {
  const std::vector<std::string> parts = KeyParts(key);
  if (parts.size() != 3 || parts[0] != "jobs" || parts[1] != "state") return;
  records::v1::JobStateRecord state;
  // What cannot be read is found by the check, and by the scheduler when it loads.
  if (!state.ParseFromString(*value) || state.has_end_time()) return;
  const int64_t known = std::max(state.generation(), state.generation_floor());
  if (known > kMaxGeneration) return;
  state.set_generation_floor(std::min(known + kGenerationsUnknownToABackup, kMaxGeneration));
  *value = state.SerializeAsString();
}

}  // namespace capstan::scheduler
