#include "tools/capstan/cli/live_table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace capstan::cli {

void LiveTable::Draw(const std::string& text, const TerminalSize& size) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  // The line below the last belongs to the cursor.
  const auto room = static_cast<size_t>(std::max(size.rows - 1, 2));
  if (lines.size() > room) {
    const size_t hidden = lines.size() - room + 1;
    lines.resize(room - 1);
    lines.push_back(absl::StrCat("... ", hidden, " more"));
  }
  std::string drawing;
  // A window that has become lower has scrolled the rest away.
  const int up = std::min(drawn_, static_cast<int>(room));
  if (up > 0) absl::StrAppend(&drawing, "\x1b[", up, "F");
  // Without wrapping the terminal itself cuts, which also holds for text with colours.
  drawing += "\x1b[?7l";
  for (const std::string& line : lines) absl::StrAppend(&drawing, line, "\x1b[K\n");
  drawing += "\x1b[?7h\x1b[J";
  // One write, so that Ctrl-C does not come in between.
  out_->write(drawing.data(), static_cast<std::streamsize>(drawing.size()));
  out_->flush();
  drawn_ = static_cast<int>(lines.size());
}

}  // namespace capstan::cli
