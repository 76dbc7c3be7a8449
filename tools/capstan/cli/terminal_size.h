#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_TERMINAL_SIZE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_TERMINAL_SIZE_H_

namespace capstan::cli {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

// Of the terminal that `fd` is, as it is now: it changes when its window does. 80 by 24 for what is
// none, or does not know.
TerminalSize ReadTerminalSize(int fd);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_TERMINAL_SIZE_H_
