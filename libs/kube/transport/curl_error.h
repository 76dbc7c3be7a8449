#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_ERROR_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "curl/curl.h"

namespace capstan::kube {

// How libcurl 7.88 has ended a transfer.
struct CurlOutcome {
  CURLcode code = CURLE_OK;
  // What curl_easy_strerror says of it, and its error buffer; neither holds a secret.
  absl::string_view text;
  absl::string_view detail;
  // Bytes of the request went into a connection, not counting those for a stream that was refused.
  bool sent = false;
  // The head of the response has come.
  bool answered = false;
};

// With a reason of transport_error.h. What cannot be told apart is kBroken.
absl::Status StatusOf(const CurlOutcome& outcome);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_ERROR_H_
