#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_RAW_TERMINAL_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_RAW_TERMINAL_H_

#include <termios.h>

#include "absl/status/statusor.h"

namespace capstan::cli {

// Standard input's terminal in raw mode: every key, Ctrl-C included, is only a byte. As it was
// again when this goes.
class RawTerminal {
 public:
  // FAILED_PRECONDITION, reason NO_TERMINAL, if `fd` is none.
  static absl::StatusOr<RawTerminal> Enter(int fd);
  RawTerminal(RawTerminal&& other) noexcept;
  RawTerminal& operator=(RawTerminal&&) = delete;
  ~RawTerminal();

 private:
  RawTerminal(int fd, const termios& before) : fd_(fd), before_(before) {}

  int fd_;
  termios before_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_RAW_TERMINAL_H_
