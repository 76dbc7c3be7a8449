#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_TEXT_TABLE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_TEXT_TABLE_H_

#include <string>
#include <vector>

#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

// Columns of left-aligned text, two spaces apart, headers in upper case. Widths are counted in code
// points. An empty cell is shown as `-`.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headers) : headers_(std::move(headers)) {}

  struct Cell {
    // NOLINTNEXTLINE(google-explicit-constructor)
    Cell(std::string text_in, Colour colour_in = Colour::kPlain)
        : text(std::move(text_in)), colour(colour_in) {}
    Cell(const char* text_in) : text(text_in) {}  // NOLINT(google-explicit-constructor)
    std::string text;
    Colour colour = Colour::kPlain;
  };

  // As many cells as headers.
  void AddRow(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }

  // Every line ends in a newline and has no spaces at its end.
  std::string Render(const Terminal& terminal, bool headers = true) const;

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_TEXT_TABLE_H_
