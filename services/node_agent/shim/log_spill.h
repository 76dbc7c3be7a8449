#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_SPILL_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_SPILL_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"
#include "libs/time/clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// Writes a Task's output, line by line, into segments below one folder, never more than
// `limit_bytes` in all: then the oldest segment goes. Whoever ships the log may remove segments
// that are not the newest. Nothing here fails or blocks for long: what cannot be written is dropped
// and counted. A gap shows as a jump of the sequence, and by the records' positions how much it
// was.
//
// Bytes handed to Write are in the file when it returns, except an unfinished line (at most 64 KiB
// for each stream), which Flush writes. Not fsynced: a crash of the machine ends the Task too. One
// thread.
class LogSpill {
 public:
  // `folder` exists and is empty; `clock` outlives this object.
  LogSpill(std::string folder, int64_t limit_bytes, const Clock* clock);

  // Takes bytes that the Task has written to `stream` (1 stdout, 2 stderr).
  void Write(int stream, absl::string_view bytes);
  // Writes unfinished lines; at the end of the Task.
  void Flush();

 private:
  struct Segment {
    int64_t first_sequence = 0;
    int64_t size = 0;
    // Bytes of lines in it.
    int64_t line_bytes = 0;
  };

  void AppendRecord(int stream, absl::string_view line, bool partial);
  void Emit();
  void MakeRoom(int64_t needed);
  bool OpenSegment();
  std::string Path(const Segment& segment) const;

  const std::string folder_;
  const int64_t limit_bytes_;
  const int64_t segment_bytes_;
  const Clock* const clock_;
  // Unfinished lines of stdout and stderr.
  std::string pending_[2];
  // Frames of the Write in hand, how many they are, and the bytes of their lines.
  std::string batch_;
  int64_t batch_records_ = 0;
  int64_t batch_line_bytes_ = 0;
  std::deque<Segment> segments_;
  UniqueFd file_;
  int64_t next_sequence_ = 1;
  // Bytes of all lines so far.
  int64_t position_ = 0;
  // What was to be written last could not be, so that no record shows the gap yet.
  bool tail_lost_ = false;
  int64_t total_ = 0;
  int64_t dropped_bytes_ = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_SPILL_H_
