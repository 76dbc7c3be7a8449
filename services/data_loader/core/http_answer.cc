#include "services/data_loader/core/http_answer.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::data_loader {
namespace {

// 0 for what is no status line.
int StatusOf(absl::string_view line) {
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos) return 0;
  const absl::string_view code = line.substr(space + 1, 3);
  int status = 0;
  if (code.size() < 3 || !absl::ascii_isdigit(static_cast<unsigned char>(code[0])) ||
      !absl::SimpleAtoi(code, &status)) {
    return 0;
  }
  return status;
}

}  // namespace

absl::Status HttpAnswerReader::Take(absl::string_view line) {
  bytes_ += line.size();
  if (bytes_ > kMaxHeaderBytes) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "HTTP_HEADERS_TOO_LARGE",
                         "the server's headers are larger than 64 KiB");
  }
  line = absl::StripAsciiWhitespace(line);
  if (absl::StartsWith(line, "HTTP/")) {
    answer_ = HttpAnswer();
    answer_.status = StatusOf(line);
    return absl::OkStatus();
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return absl::OkStatus();
  std::string& value = answer_.headers[absl::AsciiStrToLower(line.substr(0, colon))];
  const absl::string_view more = absl::StripAsciiWhitespace(line.substr(colon + 1));
  // Fields may come in several lines.
  absl::StrAppend(&value, value.empty() || more.empty() ? "" : ", ", more);
  return absl::OkStatus();
}

}  // namespace capstan::data_loader
