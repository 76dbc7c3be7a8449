#include "integration/platform/slot_job.h"

#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan::integration {
namespace {

std::string AskedFile(const TestPlatform& platform) { return platform.folder() + "/witness/asked"; }

}  // namespace

std::string Gate(const TestPlatform& platform) { return platform.folder() + "/witness/gate"; }

void OpenGate(const TestPlatform& platform) { std::ofstream(Gate(platform)).flush(); }

std::string StayingScript(const TestPlatform& platform) {
  return absl::StrCat("trap \"ended=1; : > ", AskedFile(platform),
                      "\" TERM; echo stays; while test -z \"$ended\" || ! test -e ", Gate(platform),
                      "; do sleep 0.1; done; exit 1");
}

bool WasAskedToEnd(const TestPlatform& platform) {
  return access(AskedFile(platform).c_str(), F_OK) == 0;
}

std::string TextOf(const SlotJob& job) {
  return absl::StrCat(
      "job_id: ", job.id, "\nspec:\n  queue: queues/", job.queue, "\n", job.spec_lines,
      "  task_groups:\n    - name: w\n      replicas: ", job.replicas, "\n", job.group_lines,
      "      argv: [/bin/sh, -c, '", job.script,
      "']\n      resources: {cpu: 10m, memory: 32Mi, accelerators: {slot: ", job.slots, "}}\n");
}

CommandResult Submit(const SlotJob& job, TestPlatform* platform) {
  return platform->SubmitText(job.id, TextOf(job));
}

void MustSubmit(const SlotJob& job, TestPlatform* platform) {
  const CommandResult result = Submit(job, platform);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err << TextOf(job);
}

}  // namespace capstan::integration
