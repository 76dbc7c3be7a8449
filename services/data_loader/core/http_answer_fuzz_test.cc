// The head of an answer from any web server, hostile ones among them: what is kept is bounded,
// however many interim answers come, and what a load then makes of it is what it says.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "services/data_loader/core/http_answer.h"
#include "services/data_loader/core/http_rules.h"

namespace {

using namespace capstan::data_loader;  // NOLINT(google-build-using-namespace)
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;

const std::vector<std::string>& Lines() {
  static const auto& lines = *new std::vector<std::string>{
      "HTTP/1.1 206 Partial Content\r\n",
      "HTTP/1.1 100 Continue\r\n",
      "HTTP/2 200 \r\n",
      "HTTP/1.1 -12\r\n",
      "HTTP/1.1\r\n",
      "Content-Range: bytes 0-0/1000\r\n",
      "content-range: bytes 5-4/3\r\n",
      "Content-Length: 9223372036854775808\r\n",
      "content-length: 12\r\n",
      "Retry-After: 120\r\n",
      "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n",
      "ETag: W/\"a\"\r\n",
      "Last-Modified: x\r\n",
      "Repr-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:\r\n",
      "Digest: sha-256=zz\r\n",
      "Content-Encoding: gzip\r\n",
      "\r\n"};
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  HttpAnswerReader reader;
  size_t bytes = 0;
  const size_t times = input.Flag() ? 1 : 200;
  while (!input.empty()) {
    const std::string line =
        input.Flag() ? absl::StrCat(input.Bytes(input.Byte()), "\r\n") : input.Word(Lines());
    for (size_t i = 0; i < times; ++i) {
      bytes += line.size();
      const bool taken = reader.Take(line).ok();
      Require(taken == (bytes <= kMaxHeaderBytes));
      if (!taken) return 0;
    }
  }
  const HttpAnswer& answer = reader.answer();
  Require(answer.status >= 0 && answer.status <= 999);
  size_t kept = 0;
  for (const auto& [name, value] : answer.headers) {
    kept += name.size() + value.size();
    Require(name == absl::AsciiStrToLower(name) && !absl::StrContains(name, ':'));
    Require(value == absl::StripAsciiWhitespace(value));
  }
  Require(kept <= 2 * bytes);
  const auto header = [&answer](const char* name) {
    const auto it = answer.headers.find(name);
    return it == answer.headers.end() ? std::string() : it->second;
  };
  const auto range = ParseContentRange(header("content-range"));
  if (range.has_value()) Require(range->total >= 0 && range->last < range->total);
  const auto pause = ParseRetryAfter(header("retry-after"), absl::FromUnixSeconds(1'800'000'000));
  if (pause.has_value()) Require(*pause >= absl::ZeroDuration());
  const std::string sum = Sha256FromHeaders(answer.headers);
  Require(sum.empty() || sum.size() == 32);
  Require(ValidatorFromHeaders(answer.headers) == ValidatorFromHeaders(answer.headers));
  return 0;
}
