#include "tools/capstan/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, which some terminals obey, are 0xc2 0x80 to 0xc2 0x9f in UTF-8.
    const bool c1 = c == 0xc2 && i + 1 < text.size() &&
                    static_cast<unsigned char>(text[i + 1]) < 0xa0 &&
                    static_cast<unsigned char>(text[i + 1]) >= 0x80;
    if (c1) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(text[++i]));
    } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", c);
    } else {
      out.push_back(static_cast<char>(c));
    }
  }
  return out;
}

}  // namespace capstan::cli
