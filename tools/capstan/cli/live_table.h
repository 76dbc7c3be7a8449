#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LIVE_TABLE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LIVE_TABLE_H_

#include <ostream>
#include <string>

#include "tools/capstan/cli/terminal_size.h"

namespace capstan::cli {

// Lines on a terminal that are drawn again in place. What was above them stays, and so does the
// last drawing when the command ends, by itself or by Ctrl-C: no mode of the terminal is left
// changed.
class LiveTable {
 public:
  // `out` is a terminal and must outlive it.
  explicit LiveTable(std::ostream* out) : out_(out) {}

  // Replaces what was drawn before. `text` is whole lines, without control bytes but for colours.
  // Lines are cut at the right edge, and what does not fit below is counted on the last line.
  void Draw(const std::string& text, const TerminalSize& size);

 private:
  std::ostream* const out_;
  int drawn_ = 0;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LIVE_TABLE_H_
