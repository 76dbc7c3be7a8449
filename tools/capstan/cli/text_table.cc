#include "tools/capstan/cli/text_table.h"

#include <algorithm>
#include <utility>

namespace capstan::cli {
namespace {

size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void AppendLine(const std::vector<TextTable::Cell>& cells, const std::vector<size_t>& widths,
                const Terminal& terminal, std::string* out) {
  std::string line;
  size_t padding = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    line.append(padding, ' ');
    line += terminal.Paint(cells[i].colour, cells[i].text);
    padding = widths[i] - Width(cells[i].text) + 2;
  }
  out->append(line);
  out->push_back('\n');
}

}  // namespace

void TextTable::AddRow(std::vector<Cell> cells) {
  cells.resize(headers_.size(), Cell(""));
  for (Cell& cell : cells) cell.text = cell.text.empty() ? "-" : WithoutControls(cell.text);
  rows_.push_back(std::move(cells));
}

std::string TextTable::Render(const Terminal& terminal, bool headers) const {
  std::vector<size_t> widths;
  std::vector<Cell> header;
  for (const std::string& text : headers_) {
    // A column may be called by a name that came from outside.
    header.emplace_back(WithoutControls(text), Colour::kBold);
    widths.push_back(headers ? Width(header.back().text) : 0);
  }
  for (const std::vector<Cell>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i].text));
  }
  std::string out;
  if (headers) AppendLine(header, widths, terminal, &out);
  for (const std::vector<Cell>& row : rows_) AppendLine(row, widths, terminal, &out);
  return out;
}

}  // namespace capstan::cli
