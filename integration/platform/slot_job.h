// Jobs of Tasks that do nothing but hold devices, for tests of what runs when.
#ifndef CAPSTAN_INTEGRATION_PLATFORM_SLOT_JOB_H_
#define CAPSTAN_INTEGRATION_PLATFORM_SLOT_JOB_H_

#include <string>

#include "absl/strings/string_view.h"
#include "integration/platform/command.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {

struct SlotJob {
  absl::string_view id;
  // Devices named `slot` of each Task.
  int slots = 1;
  int replicas = 1;
  absl::string_view queue = "default";
  // Of /bin/sh, which each Task runs.
  absl::string_view script = "exec sleep 600";
  // Lines of the TaskGroup, each indented by six blanks, and of the JobSpec, by two.
  absl::string_view group_lines = "";
  absl::string_view spec_lines = "";
};

// A file that Tasks may wait for.
std::string Gate(const TestPlatform& platform);
void OpenGate(const TestPlatform& platform);
// A script that writes `stays`, and is not ended by SIGTERM before the gate is open.
std::string StayingScript(const TestPlatform& platform);
// Whether one of them was sent SIGTERM by now; asks no part of the platform.
bool WasAskedToEnd(const TestPlatform& platform);

// As a submit file.
std::string TextOf(const SlotJob& job);

CommandResult Submit(const SlotJob& job, TestPlatform* platform);
// The test fails unless it was taken.
void MustSubmit(const SlotJob& job, TestPlatform* platform);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_SLOT_JOB_H_
