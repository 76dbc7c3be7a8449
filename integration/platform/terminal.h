#ifndef CAPSTAN_INTEGRATION_PLATFORM_TERMINAL_H_
#define CAPSTAN_INTEGRATION_PLATFORM_TERMINAL_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::integration {

// A command in a pseudo-terminal of its own, as a person has it before them: what it prints comes
// with colours and redrawn lines, and what is typed passes the terminal's line discipline, so that
// Ctrl-C is a signal to the foreground. One thread.
class Terminal {
 public:
  // `argv` with an absolute path; `environment` is all of it. Null if it could not be started.
  static std::unique_ptr<Terminal> Start(const std::vector<std::string>& argv,
                                         const std::vector<std::string>& environment);
  // Kills the command if it still runs.
  ~Terminal();

  void Type(absl::string_view keys);
  // Reads until `text` has been shown since the start. False if the command ended or the time was
  // over before.
  bool AwaitText(absl::string_view text, absl::Duration time_out);
  // Reads to the end; the exit code, or -1 if it ended otherwise or not in time.
  int Finish(absl::Duration time_out);
  // All bytes shown so far.
  const std::string& shown() const { return shown_; }

 private:
  Terminal(pid_t pid, UniqueFd master) : pid_(pid), master_(std::move(master)) {}
  // Waits for more and takes it. False at the end, or if nothing came.
  bool Read(absl::Duration at_most);

  pid_t pid_;
  const UniqueFd master_;
  std::string shown_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_TERMINAL_H_
