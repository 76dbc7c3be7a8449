#include "tools/capstan/cli/output_format.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

constexpr size_t kMaxFileBytes = 64 << 10;

constexpr char kColumns[] = "custom-columns=";
constexpr char kColumnsFile[] = "custom-columns-file=";
constexpr char kJsonPath[] = "jsonpath=";

}  // namespace

const std::vector<OutputWord>& OutputWords() {
  static const auto* const words = new std::vector<OutputWord>{
      {"table", "for people"},
      {"wide", "for people, with more columns"},
      {"json", "as the API has it"},
      {"yaml", "as the API has it"},
      {"name", "whole names, one a line"},
      {kColumns, "HEADER:path,… as in NAME:.name,QUEUE:.spec.queue"},
      {kColumnsFile, "a file with a line of headers and one of paths"},
      {kJsonPath, "a template, as in {.items[*].name}"},
  };
  return *words;
}

absl::Status ParseOutput(absl::string_view text, OutputOptions* options) {
  // `-o=json`, as some are used to.
  absl::ConsumePrefix(&text, "=");
  OutputOptions parsed;
  parsed.sort_by = options->sort_by;
  parsed.headers = options->headers;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, kColumns)) {
    parsed.format = OutputFormat::kCustomColumns;
    CAPSTAN_ASSIGN_OR_RETURN(parsed.columns, CustomColumns::Parse(rest));
  } else if (absl::ConsumePrefix(&rest, kColumnsFile)) {
    parsed.format = OutputFormat::kCustomColumns;
    parsed.columns_file = std::string(rest);
  } else if (absl::ConsumePrefix(&rest, kJsonPath)) {
    parsed.format = OutputFormat::kJsonPath;
    CAPSTAN_ASSIGN_OR_RETURN(parsed.json_path, JsonPathTemplate::Parse(rest));
  } else {
    const std::string word = absl::AsciiStrToLower(text);
    if (word == "table" || word == "wide") {
      parsed.wide = word == "wide";
    } else if (word == "json") {
      parsed.format = OutputFormat::kJson;
    } else if (word == "yaml") {
      parsed.format = OutputFormat::kYaml;
    } else if (word == "name") {
      parsed.format = OutputFormat::kName;
    } else {
      return status::Error(
          absl::StatusCode::kInvalidArgument, "NO_SUCH_FORMAT",
          absl::StrCat(
              "found '", WithoutControls(text), "', expected one of ",
              absl::StrJoin(OutputWords(), ", ", [](std::string* out, const OutputWord& known) {
                absl::StrAppend(out, known.word);
                if (out->back() == '=') absl::StrAppend(out, "…");
              })));
    }
  }
  *options = std::move(parsed);
  return absl::OkStatus();
}

absl::Status LoadColumnsFile(OutputOptions* options) {
  if (options->columns_file.empty() || options->columns.has_value()) return absl::OkStatus();
  const std::string& file = options->columns_file;
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const absl::Status why = ErrnoStatus(errno, "opening", file);
    return status::Error(why.code(), "FILE_NOT_READABLE", why.message(), {{"file", file}});
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadAll(fd.get(), kMaxFileBytes, file));
  absl::StatusOr<CustomColumns> columns = CustomColumns::ParseFile(text);
  if (!columns.ok()) return status::Annotate(columns.status(), file);
  options->columns = *std::move(columns);
  return absl::OkStatus();
}

}  // namespace capstan::cli
