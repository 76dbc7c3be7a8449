#include "libs/kube/transport/curl_error.h"

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/transport/tls_alert.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

// The code of OpenSSL in `error:0A000412:SSL routines::…`; 0 if there is none.
uint32_t OpensslCode(absl::string_view detail) {
  constexpr absl::string_view kMark = "error:";
  const size_t at = detail.find(kMark);
  if (at == absl::string_view::npos) return 0;
  uint32_t code = 0;
  if (!absl::SimpleHexAtoi(detail.substr(at + kMark.size(), 8), &code)) return 0;
  return code;
}

// Whether the server says that it does not take our certificate. TLS 1.3 tells it after the
// handshake, when the request is under way already.
bool CertificateRefused(absl::string_view detail) {
  const uint32_t code = OpensslCode(detail);
  // ERR_LIB_SSL (20), whose reasons from 1000 on are alerts.
  constexpr uint32_t kSslLibrary = 20;
  constexpr int kAlerts = 1000;
  return code >> 23 == kSslLibrary &&
         RefusesCertificate(static_cast<int>(code & 0x7FFFFF) - kAlerts);
}

bool TlsFailed(const CurlOutcome& outcome) {
  switch (outcome.code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return true;
    case CURLE_SSL_CONNECT_ERROR:
      // Else the connection broke while hands were shaken, as when a server ends.
      return OpensslCode(outcome.detail) != 0 &&
             !absl::StrContains(outcome.detail, "unexpected eof");
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      return !outcome.answered && CertificateRefused(outcome.detail);
    default:
      return false;
  }
}

}  // namespace

absl::Status StatusOf(const CurlOutcome& outcome) {
  std::string text(outcome.text);
  if (!outcome.detail.empty()) absl::StrAppend(&text, " (", outcome.detail, ")");
  if (TlsFailed(outcome)) {
    return status::Error(absl::StatusCode::kFailedPrecondition, kTlsFailed,
                         absl::StrCat("no TLS connection to the API server: ", text,
                                      "; check its address, the certificate authority and the "
                                      "client certificate"));
  }
  if (outcome.code == CURLE_URL_MALFORMAT) {
    return status::Error(absl::StatusCode::kInvalidArgument, kBadRequest,
                         absl::StrCat("the request's target is no part of a URL: ", text));
  }
  if (!outcome.sent && !outcome.answered) {
    return status::Error(absl::StatusCode::kUnavailable, kNotSent,
                         absl::StrCat("the API server was not reached: ", text));
  }
  return status::Error(absl::StatusCode::kUnavailable, kBroken,
                       absl::StrCat("the call to the API server broke: ", text));
}

}  // namespace capstan::kube
