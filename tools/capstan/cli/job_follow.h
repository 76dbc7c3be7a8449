// Following a Job: its states from the scheduler, its log and events from telemetry. Everything
// happens on the loop's strand. A lost stream is resumed where it was.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_FOLLOW_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_FOLLOW_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// Why following ended before it was done.
using OnOver = std::function<void(const absl::Status&)>;

// Calls `on_job` with the Job's state, and with each newer one, until that returns false. A Job
// that is gone, or was never there, is NOT_FOUND.
absl::Status FollowJob(CommandLoop* loop, Platform* platform, const std::string& job,
                       std::function<bool(const scheduler::v1::Job&)> on_job,
                       const OnOver& on_over);

// The same for all Jobs of a project: `on_job` with each change, `on_deleted` with names.
absl::Status FollowJobs(CommandLoop* loop, Platform* platform, const std::string& parent,
                        std::function<void(const scheduler::v1::Job&)> on_job,
                        std::function<void(const std::string&)> on_deleted, OnOver on_over);

struct StreamQuery {
  // `projects/{p}/jobs/{j}/streams/log` and the like.
  std::string stream;
  // Records before the end to begin with; none means from the beginning.
  absl::optional<int64_t> tail;
  bool follow = false;
  std::map<std::string, std::string> attributes;
};

// Calls `on_record` in order of offset, each record once, until it returns false; `on_caught_up`
// once, after those that were there at first. A stream that is not followed ends with on_over(OK).
absl::Status ReadStream(CommandLoop* loop, Platform* platform, const StreamQuery& query,
                        std::function<bool(const telemetry::v1::Record&)> on_record,
                        std::function<void()> on_caught_up, OnOver on_over);

// Blocks until `on_job` returns false.
absl::Status WaitForJob(Platform* platform, const std::string& job, const Invocation& invocation,
                        std::function<bool(const scheduler::v1::Job&)> on_job);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_FOLLOW_H_
