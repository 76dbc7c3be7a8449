#include "tools/capstan/cli/terminal_size.h"

#include <sys/ioctl.h>

namespace capstan::cli {

TerminalSize ReadTerminalSize(int fd) {
  TerminalSize size;
  winsize window = {};
  if (ioctl(fd, TIOCGWINSZ, &window) != 0) return size;
  if (window.ws_col > 0) size.columns = window.ws_col;
  if (window.ws_row > 0) size.rows = window.ws_row;
  return size;
}

}  // namespace capstan::cli
