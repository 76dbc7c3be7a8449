#include "tools/capstan/cli/raw_terminal.h"

#include <utility>

#include "libs/status/error.h"

namespace capstan::cli {

absl::StatusOr<RawTerminal> RawTerminal::Enter(int fd) {
  termios before;
  if (tcgetattr(fd, &before) != 0) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "NO_TERMINAL",
                         "standard input is not a terminal: leave -t out");
  }
  termios raw = before;
  cfmakeraw(&raw);
  if (tcsetattr(fd, TCSADRAIN, &raw) != 0) {
    return absl::InternalError("the terminal can't be put into raw mode");
  }
  return RawTerminal(fd, before);
}

RawTerminal::RawTerminal(RawTerminal&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), before_(other.before_) {}

RawTerminal::~RawTerminal() {
  if (fd_ >= 0) tcsetattr(fd_, TCSADRAIN, &before_);
}

}  // namespace capstan::cli
