#include "tools/capstan/cli/live_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace capstan::cli {
namespace {

// The first `columns` code points.
std::string Cut(const std::string& text, int columns) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (width++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

void LiveLines::Print(const std::string& text) {
  Erase();
  *out_ << text << "\n";
  Draw();
  out_->flush();
}

void LiveLines::Show(const std::string& what, const std::string& text) {
  if (!terminal_.interactive) return;
  Erase();
  if (text.empty()) {
    shown_.erase(what);
  } else {
    shown_[what] = WithoutControls(text);
  }
  Draw();
  out_->flush();
}

void LiveLines::Erase() {
  if (!drawn_) return;
  *out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void LiveLines::Draw() {
  if (shown_.empty()) return;
  std::string line;
  for (const auto& [what, text] : shown_) absl::StrAppend(&line, line.empty() ? "" : " | ", text);
  // The last column stays free: some terminals wrap once it is written.
  *out_ << Cut(line, std::max(terminal_.columns - 1, 10));
  drawn_ = true;
}

}  // namespace capstan::cli
