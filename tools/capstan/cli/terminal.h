#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_TERMINAL_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan::cli {

enum class Colour { kPlain, kBold, kDim, kRed, kGreen, kYellow, kBlue };

// What an output is. Colour and anything that moves the cursor go to terminals only.
struct Terminal {
  bool interactive = false;
  bool colour = false;
  int columns = 80;

  // What `fd` is. Colour also needs a TERM other than `dumb` and no NO_COLOR (no-color.org).
  static Terminal Detect(int fd, const char* no_color, const char* term);

  // `text` in a colour, or as it is.
  std::string Paint(Colour colour, absl::string_view text) const;
};

// `text` without control bytes, for what comes from outside: a Task's log line must not move the
// cursor or change the title of a person's terminal. Tabs stay.
std::string WithoutControls(absl::string_view text);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_TERMINAL_H_
