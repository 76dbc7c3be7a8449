#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_PRINTER_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_PRINTER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/proto_text.h"
#include "tools/capstan/cli/text_table.h"

namespace capstan::cli {

// A column of a list.
template <typename Resource>
struct Column {
  std::string header;
  std::function<TextTable::Cell(const Resource&)> cell;
};

// A list in the wanted format: a table, an object with the list as `field`, or names by line.
template <typename Resource, typename List>
void PrintList(const Invocation& invocation, absl::string_view field, const List& list,
               const std::vector<Column<Resource>>& columns) {
  std::vector<const google::protobuf::Message*> messages;
  for (const Resource& resource : list) messages.push_back(&resource);
  switch (invocation.format) {
    case OutputFormat::kJson:
      *invocation.out << ToJson(field, messages);
      return;
    case OutputFormat::kYaml:
      *invocation.out << ToYaml(field, messages);
      return;
    case OutputFormat::kName:
      for (const Resource& resource : list) *invocation.out << resource.name() << "\n";
      return;
    case OutputFormat::kTable:
      break;
  }
  if (list.empty()) {
    *invocation.err << "none\n";
    return;
  }
  std::vector<std::string> headers;
  for (const Column<Resource>& column : columns) headers.push_back(column.header);
  TextTable table(headers);
  for (const Resource& resource : list) {
    std::vector<TextTable::Cell> cells;
    for (const Column<Resource>& column : columns) cells.push_back(column.cell(resource));
    table.AddRow(std::move(cells));
  }
  *invocation.out << table.Render(invocation.out_terminal);
}

// One resource: as JSON, YAML, by name, or by `describe` for people.
template <typename Resource>
void PrintResource(const Invocation& invocation, const Resource& resource,
                   const std::function<std::string(const Resource&)>& describe) {
  switch (invocation.format) {
    case OutputFormat::kJson:
      *invocation.out << ToJson(resource);
      return;
    case OutputFormat::kYaml:
      *invocation.out << ToYaml(resource);
      return;
    case OutputFormat::kName:
      *invocation.out << resource.name() << "\n";
      return;
    case OutputFormat::kTable:
      *invocation.out << describe(resource);
      return;
  }
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_PRINTER_H_
