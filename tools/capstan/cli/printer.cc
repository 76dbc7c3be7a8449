#include "tools/capstan/cli/printer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/document.h"
#include "tools/capstan/cli/exit_code.h"

namespace capstan::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::StatusOr<std::string> NameOf(const Message& resource) {
  const FieldDescriptor* field = resource.GetDescriptor()->FindFieldByName("name");
  if (field == nullptr || field->is_repeated() ||
      field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_NAME",
                         "what is shown has no name; expected another -o than name");
  }
  return resource.GetReflection()->GetString(resource, field);
}

absl::StatusOr<std::string> Expand(const Invocation& invocation, const Document& document) {
  const bool terminal = invocation.out_terminal.interactive;
  CAPSTAN_ASSIGN_OR_RETURN(std::string text,
                           invocation.output.json_path->Expand(document, terminal));
  // A template ends where it ends, for programs; a person's prompt begins a line of its own.
  if (terminal && !text.empty() && text.back() != '\n') text.push_back('\n');
  return text;
}

// Puts the resources in the order of what --sort-by finds; those without it come first.
absl::StatusOr<std::vector<size_t>> Order(const Invocation& invocation,
                                          const std::vector<const Message*>& resources) {
  std::vector<size_t> order(resources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!invocation.output.sort_by.has_value()) return order;
  std::vector<absl::optional<std::string>> keys;
  for (const Message* resource : resources) {
    const Document document = ToDocument(*resource);
    CAPSTAN_ASSIGN_OR_RETURN(const auto found, invocation.output.sort_by->Find(document));
    keys.emplace_back();
    if (!found.empty()) keys.back() = ValueText(*found.front());
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!keys[a].has_value() || !keys[b].has_value()) return !keys[a] && keys[b].has_value();
    return CompareValues(*keys[a], *keys[b]) < 0;
  });
  return order;
}

std::vector<TextTable::Cell> Cells(std::vector<std::string> texts) {
  std::vector<TextTable::Cell> cells;
  for (std::string& text : texts) cells.emplace_back(std::move(text));
  return cells;
}

absl::Status PrintCustomColumns(const Invocation& invocation,
                                const std::vector<const Message*>& resources) {
  TextTable table(invocation.output.columns->headers());
  for (const Message* resource : resources) {
    CAPSTAN_ASSIGN_OR_RETURN(auto cells, invocation.output.columns->Row(ToDocument(*resource)));
    table.AddRow(Cells(std::move(cells)));
  }
  *invocation.out << table.Render(invocation.out_terminal, invocation.output.headers);
  return absl::OkStatus();
}

absl::Status PrintTable(const Invocation& invocation, const Listing& listing,
                        const std::vector<size_t>& order) {
  if (order.empty()) {
    *invocation.err << "none\n";
    return absl::OkStatus();
  }
  TextTable table(listing.headers);
  for (const size_t at : order) table.AddRow(listing.row(at));
  *invocation.out << table.Render(invocation.out_terminal, invocation.output.headers);
  return absl::OkStatus();
}

}  // namespace

absl::Status PrintListing(const Invocation& invocation, Listing listing) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<size_t> order, Order(invocation, listing.resources));
  if (invocation.output.format == OutputFormat::kTable) {
    return PrintTable(invocation, listing, order);
  }
  std::vector<const Message*> sorted;
  for (const size_t at : order) sorted.push_back(listing.resources[at]);
  switch (invocation.output.format) {
    case OutputFormat::kTable:
      break;
    case OutputFormat::kCustomColumns:
      return PrintCustomColumns(invocation, sorted);
    case OutputFormat::kName:
      for (const Message* resource : sorted) {
        CAPSTAN_ASSIGN_OR_RETURN(const std::string name, NameOf(*resource));
        *invocation.out << name << "\n";
      }
      break;
    case OutputFormat::kJson:
      *invocation.out << ToJson(ToDocument(listing.field, sorted));
      break;
    case OutputFormat::kYaml:
      *invocation.out << ToYaml(ToDocument(listing.field, sorted));
      break;
    case OutputFormat::kJsonPath: {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string text,
                               Expand(invocation, ToDocument(listing.field, sorted)));
      *invocation.out << text;
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RenderResource(const Invocation& invocation, const Message& resource) {
  switch (invocation.output.format) {
    case OutputFormat::kJson:
    case OutputFormat::kTable:
      return ToJson(ToDocument(resource));
    case OutputFormat::kYaml:
      return ToYaml(ToDocument(resource));
    case OutputFormat::kJsonPath:
      return Expand(invocation, ToDocument(resource));
    case OutputFormat::kName: {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string name, NameOf(resource));
      return absl::StrCat(name, "\n");
    }
    case OutputFormat::kCustomColumns: {
      CAPSTAN_ASSIGN_OR_RETURN(auto cells, invocation.output.columns->Row(ToDocument(resource)));
      TextTable table(invocation.output.columns->headers());
      table.AddRow(Cells(std::move(cells)));
      return table.Render(invocation.out_terminal, /*headers=*/false);
    }
  }
  return absl::InternalError("no such format");
}

std::string RenderChange(const Invocation& invocation, const Message& resource) {
  absl::StatusOr<std::string> text = RenderResource(invocation, resource);
  if (!text.ok()) {
    *invocation.err << DescribeError(text.status());
    return "";
  }
  if (absl::EndsWith(*text, "\n")) text->pop_back();
  if (invocation.output.format == OutputFormat::kYaml) return absl::StrCat("---\n", *text);
  return *std::move(text);
}

absl::Status PrintMessage(const Invocation& invocation, const Message& resource) {
  if (invocation.output.format == OutputFormat::kCustomColumns) {
    return PrintCustomColumns(invocation, {&resource});
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, RenderResource(invocation, resource));
  *invocation.out << text;
  return absl::OkStatus();
}

}  // namespace capstan::cli
