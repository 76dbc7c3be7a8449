#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_CUSTOM_COLUMNS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_CUSTOM_COLUMNS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/capstan/cli/document.h"
#include "tools/capstan/cli/json_path.h"

namespace capstan::cli {

// Columns that a person has chosen, as kubectl takes them: each a header and a path into the
// resource.
class CustomColumns {
 public:
  // `NAME:.name,QUEUE:.spec.queue`. A comma within brackets or quotes belongs to the path.
  // INVALID_ARGUMENT, reason INVALID_COLUMNS or INVALID_JSONPATH, names the column.
  static absl::StatusOr<CustomColumns> Parse(absl::string_view text);
  // A file of two lines, headers and paths, both separated by spaces or tabs.
  static absl::StatusOr<CustomColumns> ParseFile(absl::string_view text);

  const std::vector<std::string>& headers() const { return headers_; }
  // A cell for each column; several values are joined by commas, none is `<none>`.
  absl::StatusOr<std::vector<std::string>> Row(const Document& resource) const;

 private:
  absl::Status Add(absl::string_view header, absl::string_view path);

  std::vector<std::string> headers_;
  std::vector<JsonPath> paths_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_CUSTOM_COLUMNS_H_
