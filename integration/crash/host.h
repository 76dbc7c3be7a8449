// The processes of a test's platform, as the machine shows them.
#ifndef CAPSTAN_INTEGRATION_CRASH_HOST_H_
#define CAPSTAN_INTEGRATION_CRASH_HOST_H_

#include <vector>

#include "integration/platform/test_platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {

// Shims, without the first processes of their Tasks, which are forked from them.
std::vector<dev::ProcessId> ShimsOf(const TestPlatform& platform);

// Supervisor, parts, shims, and all that runs in Tasks; not the commands of people.
std::vector<dev::ProcessId> ProcessesOfHost(const TestPlatform& platform);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_HOST_H_
