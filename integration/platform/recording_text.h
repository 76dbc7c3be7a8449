// What a recording of the scheduler's says, for a test that looks for what must not be in it.
#ifndef CAPSTAN_INTEGRATION_PLATFORM_RECORDING_TEXT_H_
#define CAPSTAN_INTEGRATION_PLATFORM_RECORDING_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::integration {

// Every byte that a reader of the recording would see: a header, and one zstd stream through all
// frames after it, up to where the file was cut off. Reads frames and stream by itself, and asks
// none of the recorder's code. Absent if these bytes are no recording.
absl::optional<std::string> RecordingText(absl::string_view file);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_RECORDING_TEXT_H_
