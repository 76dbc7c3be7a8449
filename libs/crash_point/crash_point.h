// Places at which a test may end or stop a process: just before or after something is made durable,
// or done to the world. In every program that people run a point does nothing: the function is
// empty. Only programs of tests link `armed`, which looks at a plan; see crash_plan.h.
#ifndef CAPSTAN_LIBS_CRASH_POINT_CRASH_POINT_H_
#define CAPSTAN_LIBS_CRASH_POINT_CRASH_POINT_H_

#include "absl/strings/string_view.h"

namespace capstan {

// `point`: one of points.h. Any thread. Not between fork and exec.
void CrashPoint(absl::string_view point);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_CRASH_POINT_CRASH_POINT_H_
