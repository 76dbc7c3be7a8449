#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_OUTPUT_FORMAT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_OUTPUT_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "tools/capstan/cli/custom_columns.h"
#include "tools/capstan/cli/json_path.h"

namespace capstan::cli {

// What a command writes. kTable is for people: a table for a list, a description for one resource.
enum class OutputFormat { kTable, kJson, kYaml, kName, kCustomColumns, kJsonPath };

// How a command writes what it shows.
struct OutputOptions {
  OutputFormat format = OutputFormat::kTable;
  // Of kTable: with the columns that are left out otherwise.
  bool wide = false;
  // Of kCustomColumns; absent until the file that `columns_file` names has been read.
  absl::optional<CustomColumns> columns;
  std::string columns_file;
  // Of kJsonPath.
  absl::optional<JsonPathTemplate> json_path;
  // Lists are put in the order of what is found there; absent: as the platform gives them.
  absl::optional<JsonPath> sort_by;
  bool headers = true;
};

// The words that -o takes, with what they mean; those that end in `=` want more.
struct OutputWord {
  const char* word;
  const char* meaning;
};
const std::vector<OutputWord>& OutputWords();

// Sets format, wide, columns, columns_file and json_path from what was given to -o. Reads no file.
absl::Status ParseOutput(absl::string_view text, OutputOptions* options);

// Reads `columns_file` if one is named and not yet read. FILE_NOT_READABLE if it cannot be.
absl::Status LoadColumnsFile(OutputOptions* options);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_OUTPUT_FORMAT_H_
