// Following a Job: its states from the scheduler, its log from telemetry.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_FOLLOW_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_FOLLOW_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// Calls `on_job` with the Job's state, and with each newer one, until it returns false, the Job is
// gone (NOT_FOUND) or the platform has not answered for a minute. A lost stream is resumed.
absl::Status FollowJob(Platform& platform, const std::string& job,
                       const std::function<bool(const scheduler::v1::Job&)>& on_job);

// The same for all Jobs of a project: `on_job` with each change, `on_deleted` with names.
absl::Status FollowJobs(Platform& platform, const std::string& parent,
                        const std::function<bool(const scheduler::v1::Job&)>& on_job,
                        const std::function<bool(const std::string&)>& on_deleted);

struct StreamQuery {
  // `projects/{p}/jobs/{j}/streams/log` and the like.
  std::string stream;
  // Records before the end to begin with; none means from the beginning.
  absl::optional<int64_t> tail;
  bool follow = false;
  std::map<std::string, std::string> attributes;
};

// Ends a ReadStream from another thread.
class ReadCancel {
 public:
  ReadCancel();
  ~ReadCancel();
  void Cancel();

 private:
  friend absl::Status ReadStream(Platform&, const StreamQuery&,
                                 const std::function<bool(const telemetry::v1::Record&)>&,
                                 ReadCancel*);
  struct State;
  std::unique_ptr<State> state_;
};

// Calls `on_record` in order of offset, each record once, until it returns false, the end (unless
// following) or Cancel. A lost stream is resumed after the last record.
absl::Status ReadStream(Platform& platform, const StreamQuery& query,
                        const std::function<bool(const telemetry::v1::Record&)>& on_record,
                        ReadCancel* cancel = nullptr);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_FOLLOW_H_
