#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LIVE_LINES_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LIVE_LINES_H_

#include <map>
#include <ostream>
#include <string>

#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

// Lines for people that come as things happen and, on a terminal, one more line at the bottom that
// is rewritten in place. Into a file or a pipe only whole lines go. Owned by one thread at a time.
class LiveLines {
 public:
  // `out` must outlive it.
  LiveLines(std::ostream* out, const Terminal& terminal) : out_(out), terminal_(terminal) {}
  // Leaves no unfinished line.
  ~LiveLines() { Erase(); }

  // Whole lines, above the bottom line; `text` without its last newline. Flushed.
  void Print(const std::string& text);
  // What the bottom line says about `what`; empty takes it away. Cut to the terminal's width.
  void Show(const std::string& what, const std::string& text);

 private:
  void Erase();
  void Draw();

  std::ostream* const out_;
  const Terminal terminal_;
  std::map<std::string, std::string> shown_;
  bool drawn_ = false;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LIVE_LINES_H_
