// Resources in the format that was asked for.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_PRINTER_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_PRINTER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/text_table.h"

namespace capstan::cli {

// A column of a list.
template <typename Resource>
struct Column {
  std::string header;
  std::function<TextTable::Cell(const Resource&)> cell;
  // Shown with -o wide only.
  bool wide = false;
};

// A list before it is written.
struct Listing {
  // What the list is called in JSON and YAML.
  std::string field;
  std::vector<const google::protobuf::Message*> resources;
  std::vector<std::string> headers;
  // Cells of one of the resources, by its place among them.
  std::function<std::vector<TextTable::Cell>(size_t)> row;
};

// Writes a list in the order of --sort-by: a table, an object with the list as `field`, names by
// line, chosen columns, or what a template makes of the object. Fails only where a path or a
// template does.
absl::Status PrintListing(const Invocation& invocation, Listing listing);

// One resource in a format that is not for people. A resource without a name has none to print:
// INVALID_ARGUMENT, reason NO_NAME. With chosen columns a line of cells, without headers.
absl::StatusOr<std::string> RenderResource(const Invocation& invocation,
                                           const google::protobuf::Message& resource);

// One of many documents that follow each other, as a watch writes them, without its last newline.
// What cannot be rendered is told on standard error and leaves an empty line.
std::string RenderChange(const Invocation& invocation, const google::protobuf::Message& resource);

// Writes one resource in a format that is not for people.
absl::Status PrintMessage(const Invocation& invocation, const google::protobuf::Message& resource);

// A list of one type.
template <typename Resource, typename List>
absl::Status PrintList(const Invocation& invocation, absl::string_view field, const List& list,
                       const std::vector<Column<Resource>>& columns) {
  Listing listing;
  listing.field = std::string(field);
  std::vector<const Resource*> typed;
  for (const Resource& resource : list) {
    listing.resources.push_back(&resource);
    typed.push_back(&resource);
  }
  std::vector<const Column<Resource>*> shown;
  for (const Column<Resource>& column : columns) {
    if (column.wide && !invocation.output.wide) continue;
    shown.push_back(&column);
    listing.headers.push_back(column.header);
  }
  listing.row = [&](size_t at) {
    std::vector<TextTable::Cell> cells;
    for (const Column<Resource>* column : shown) cells.push_back(column->cell(*typed[at]));
    return cells;
  };
  return PrintListing(invocation, std::move(listing));
}

// One resource, for people by `describe`.
template <typename Resource>
absl::Status PrintResource(const Invocation& invocation, const Resource& resource,
                           const std::function<std::string(const Resource&)>& describe) {
  if (invocation.output.format != OutputFormat::kTable) return PrintMessage(invocation, resource);
  *invocation.out << describe(resource);
  return absl::OkStatus();
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_PRINTER_H_
