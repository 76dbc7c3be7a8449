#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_CLIENT_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/data_loader/core/http_answer.h"
#include "services/data_loader/core/http_rules.h"

namespace capstan::data_loader {

// How HTTP(S) sources are asked.
struct HttpOptions {
  // What URLs must begin with; empty allows none.
  std::vector<std::string> allowed_url_prefixes;
  // Addresses, `127.0.0.1` or `::1`, that may be connected to although only the machine itself or
  // its cloud is there (IsSpecialAddress).
  std::vector<std::string> allowed_addresses;
  // Trusted certificates in PEM; empty means those of the system.
  std::string ca_file;
  absl::Duration connect_timeout = absl::Seconds(10);
  // Without a byte.
  absl::Duration idle_timeout = absl::Seconds(30);
  int max_redirects = 5;
  // Objects whose size and validator are asked for at once.
  int probes = 16;
  // For one request, and for all of a load together before its successes count (each gives a tenth
  // of one back).
  int attempts = 6;
  int retry_budget = 100;
  absl::Duration first_pause = absl::Milliseconds(250);
  absl::Duration last_pause = absl::Seconds(20);
  // A longer Retry-After ends the load.
  absl::Duration longest_retry_after = absl::Minutes(2);
};

// GETs by libcurl, each on the thread that asks; connections are kept for the next. Certificates
// are verified, proxies of the environment, cookies and .netrc are not used, and redirects are
// answers. An address is checked when it is connected to, so that no name leads elsewhere
// meanwhile. Thread-safe.
class HttpClient {
 public:
  // Both must outlive the client; a request ends with CANCELLED once `stop` is set.
  HttpClient(const HttpOptions* options, const std::atomic<bool>* stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `on_headers` sees the final answer's head before its body and says whether the body is wanted:
  // `body` then gets it in pieces. An error of either ends the request with it. Errors of the
  // transport are UNAVAILABLE and don't show the query; PERMISSION_DENIED (ADDRESS_NOT_ALLOWED),
  // FAILED_PRECONDITION (TLS_FAILED, LIBCURL_MISSING).
  absl::StatusOr<HttpAnswer> Get(
      const HttpUrl& url, const HttpHeaders& headers,
      absl::FunctionRef<absl::StatusOr<bool>(const HttpAnswer&)> on_headers,
      absl::FunctionRef<absl::Status(absl::string_view)> body);

 private:
  const HttpOptions* const options_;
  const std::atomic<bool>* const stop_;
  absl::Mutex mutex_;
  // Handles of libcurl that no one uses.
  std::vector<void*> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_CLIENT_H_
