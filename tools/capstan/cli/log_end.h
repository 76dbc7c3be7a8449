#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_END_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_END_H_

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/optional.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan::cli {

// Knows when all of a Job's log has been read: the Job has ended, and of each Task that ran in its
// last generation, and of each other one of which there was a line, the record came that closes its
// log. Pure.
class LogEnd {
 public:
  // Only of this rank; only of this generation.
  LogEnd(absl::optional<int> rank, absl::optional<int64_t> generation)
      : rank_(rank), generation_(generation) {}

  // Any record that was read.
  void OnRecord(const telemetry::v1::Record& record);
  // What the stream held at first has been read.
  void OnCaughtUp() { caught_up_ = true; }
  // The newest state.
  void OnJob(const scheduler::v1::Job& job);
  // The Job is no longer kept: what the stream holds is all there is.
  void OnJobGone() { job_ended_ = true; }

  bool job_ended() const { return job_ended_; }
  bool complete() const { return caught_up_ && job_ended_ && Open().empty(); }
  // Tasks whose log is not closed, `generation 2 workers-1`, in order.
  std::vector<std::string> Open() const;

  // The first few of them, and how many there are beside: for a line to people. Empty if there is
  // none.
  static std::string Describe(const std::vector<std::string>& open);

  // Whether a record only closes a log, and is nothing to show.
  static bool IsEnd(const telemetry::v1::Record& record) { return record.kind() == "end"; }

 private:
  // Generation, group, index.
  using Task = std::tuple<int64_t, std::string, int64_t>;

  const absl::optional<int> rank_;
  const absl::optional<int64_t> generation_;
  bool caught_up_ = false;
  bool job_ended_ = false;
  std::set<Task> known_;
  std::set<Task> closed_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_END_H_
