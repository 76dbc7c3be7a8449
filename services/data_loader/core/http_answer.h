// The head of a web server's answer, line by line as it comes. Pure; all input is from outside.
#ifndef CAPSTAN_SERVICES_DATA_LOADER_CORE_HTTP_ANSWER_H_
#define CAPSTAN_SERVICES_DATA_LOADER_CORE_HTTP_ANSWER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/data_loader/core/http_rules.h"

namespace capstan::data_loader {

struct HttpAnswer {
  int status = 0;
  HttpHeaders headers;
};

inline constexpr size_t kMaxHeaderBytes = 64 << 10;

class HttpAnswerReader {
 public:
  // A status line, of which interim answers (1xx) may come before the one that counts; a field; or
  // the empty line. FAILED_PRECONDITION (HTTP_HEADERS_TOO_LARGE) once all of them together, of
  // interim answers too, have more than 64 KiB.
  absl::Status Take(absl::string_view line);

  // The last one that began.
  HttpAnswer& answer() { return answer_; }

 private:
  HttpAnswer answer_;
  size_t bytes_ = 0;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_CORE_HTTP_ANSWER_H_
