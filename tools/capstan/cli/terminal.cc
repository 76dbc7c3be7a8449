#include "tools/capstan/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/utf8/utf8.h"

namespace capstan::cli {
namespace {

const char* Code(Colour colour) {
  switch (colour) {
    case Colour::kPlain:
      return "0";
    case Colour::kBold:
      return "1";
    case Colour::kDim:
      return "2";
    case Colour::kRed:
      return "31";
    case Colour::kGreen:
      return "32";
    case Colour::kYellow:
      return "33";
    case Colour::kBlue:
      return "34";
  }
  return "0";
}

}  // namespace

Terminal Terminal::Detect(int fd, const char* no_color, const char* term) {
  Terminal terminal;
  terminal.interactive = isatty(fd) == 1;
  const bool refused = no_color != nullptr && no_color[0] != '\0';
  const bool dumb = term == nullptr || absl::string_view(term) == "dumb";
  terminal.colour = terminal.interactive && !refused && !dumb;
  winsize size = {};
  if (terminal.interactive && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  }
  return terminal;
}

std::string Terminal::Paint(Colour colour_wanted, absl::string_view text) const {
  if (!colour || colour_wanted == Colour::kPlain) return std::string(text);
  return absl::StrCat("\x1b[", Code(colour_wanted), "m", text, "\x1b[0m");
}

std::string WithoutControls(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const absl::string_view character = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length == 0 || (IsControl(character) && length == 1 && character != "\t")) {
      // Terminals that are not set to UTF-8 obey bytes from 0x80 to 0x9f.
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(character[0]));
    } else if (IsControl(character) && length == 2) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(character[1]));
    } else {
      absl::StrAppend(&out, character);
    }
  }
  return out;
}

}  // namespace capstan::cli
