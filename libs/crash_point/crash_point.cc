#include "libs/crash_point/crash_point.h"

namespace capstan {

// Weak, so that a program that links `armed` gets its definition instead.
__attribute__((weak)) void CrashPoint(absl::string_view /*point*/) {}

}  // namespace capstan
