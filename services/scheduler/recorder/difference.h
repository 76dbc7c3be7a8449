#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_DIFFERENCE_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_DIFFERENCE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "services/scheduler/recorder/recording.pb.h"

namespace capstan::scheduler {

namespace recording = ::capstan::scheduler::recordings::v1;

// The first piece of a decision that is another now, for people: what it is, then the lines of it
// that only `recorded` has (`- `) and that only `now` has (`+ `), at most 40 of each. `recorded` is
// a serialised Decision, or empty if it is known by its digest alone: then all of `now`.
std::string DifferenceInWords(absl::string_view recorded, const recording::Decision& now);

// A stored record as text: its key, then its message, or its bytes escaped if it is none.
std::string RecordInWords(absl::string_view key, absl::string_view value);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_DIFFERENCE_H_
