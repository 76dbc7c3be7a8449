#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_READER_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_READER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/log_end.h"
#include "tools/capstan/cli/log_selection.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// Reads a Job's log until it is complete. On the loop's strand, whose loop must be done before the
// reader goes.
class LogReader {
 public:
  // `on_line` gets lines and gaps in order. `on_complete` is called once: with OK, and the Tasks
  // whose log was not closed within the bound, or with why reading failed.
  LogReader(
      CommandLoop* loop, Platform* platform, LogSelection selection,
      std::function<void(const telemetry::v1::Record&)> on_line,
      std::function<void(const absl::Status&, const std::vector<std::string>& open)> on_complete);

  absl::Status Start();
  // The newest state of the Job: needed to know the end of a log that is followed.
  void OnJob(const scheduler::v1::Job& job);
  // The Job is not kept, or not any more.
  void OnJobGone();
  int64_t lines() const { return lines_; }
  // Of a log that was read and not followed: the Tasks whose log is not closed, if the Job has
  // ended. Empty too where only a tail was read, before which their ends may lie.
  std::vector<std::string> Unclosed(const scheduler::v1::Job& job);

 private:
  // Begins to read: `tail` records, 0 for all.
  absl::Status Read(int64_t tail);
  bool OnRecord(int attempt, const telemetry::v1::Record& record);
  void OnCaughtUp(int attempt);
  void OnOver(int attempt, const absl::Status& status);
  void Give(const telemetry::v1::Record& record);
  void GiveKept();
  void CheckEnd();
  void ArmQuietTimer();
  void Complete(const absl::Status& status);

  CommandLoop* const loop_;
  Platform* const platform_;
  const LogSelection selection_;
  const std::function<void(const telemetry::v1::Record&)> on_line_;
  const std::function<void(const absl::Status&, const std::vector<std::string>&)> on_complete_;
  LogEnd end_;
  // A tail is read at most twice; what comes of the first attempt is void then.
  int attempt_ = 0;
  bool all_ = false;
  // Of the attempt: what it asked for at most, and what came.
  int64_t wanted_ = 0;
  int64_t records_ = 0;
  // While the first records of a tail come: the last of them.
  bool keeping_ = false;
  std::deque<telemetry::v1::Record> kept_;
  int64_t lines_ = 0;
  BootTime heard_;
  bool timer_armed_ = false;
  bool complete_ = false;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_READER_H_
