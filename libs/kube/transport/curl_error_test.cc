#include "libs/kube/transport/curl_error.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

std::string ReasonOf(CURLcode code, absl::string_view detail, bool sent, bool answered = false) {
  CurlOutcome outcome;
  outcome.code = code;
  outcome.text = "text";
  outcome.detail = detail;
  outcome.sent = sent;
  outcome.answered = answered;
  return status::Reason(StatusOf(outcome));
}

TEST(CurlErrorTest, TellsWhatMayHaveHappenedAtTheServer) {
  EXPECT_EQ(ReasonOf(CURLE_COULDNT_CONNECT, "", false), kNotSent);
  EXPECT_EQ(ReasonOf(CURLE_COULDNT_RESOLVE_HOST, "", false), kNotSent);
  EXPECT_EQ(ReasonOf(CURLE_OPERATION_TIMEDOUT, "", false), kNotSent);
  EXPECT_EQ(ReasonOf(CURLE_SEND_ERROR, "", false), kNotSent);
  EXPECT_EQ(ReasonOf(CURLE_SEND_ERROR, "", true), kBroken);
  EXPECT_EQ(ReasonOf(CURLE_RECV_ERROR, "", true), kBroken);
  EXPECT_EQ(ReasonOf(CURLE_HTTP2_STREAM, "", true), kBroken);
  // Whatever is counted: an answer shows that it was sent.
  EXPECT_EQ(ReasonOf(CURLE_PARTIAL_FILE, "", false, true), kBroken);
  EXPECT_EQ(ReasonOf(CURLE_ABORTED_BY_CALLBACK, "", true), kBroken);
  EXPECT_EQ(ReasonOf(CURLE_URL_MALFORMAT, "", false), kBadRequest);
}

TEST(CurlErrorTest, TellsCertificatesFromBrokenConnections) {
  EXPECT_EQ(ReasonOf(CURLE_PEER_FAILED_VERIFICATION, "", false), kTlsFailed);
  EXPECT_EQ(ReasonOf(CURLE_SSL_CERTPROBLEM, "", false), kTlsFailed);
  EXPECT_EQ(ReasonOf(CURLE_SSL_CONNECT_ERROR,
                     "error:0A000412:SSL routines::sslv3 alert bad certificate", false),
            kTlsFailed);
  EXPECT_EQ(ReasonOf(CURLE_SSL_CONNECT_ERROR,
                     "OpenSSL SSL_connect: Connection reset by peer in connection to h:1", false),
            kNotSent);
  EXPECT_EQ(ReasonOf(CURLE_SSL_CONNECT_ERROR,
                     "error:0A000126:SSL routines::unexpected eof while reading", false),
            kNotSent);
  // TLS 1.3: the server looks at our certificate when we may have sent already.
  const std::string required =
      "OpenSSL SSL_read: error:0A00045C:SSL routines::tlsv13 alert certificate required, errno 0";
  EXPECT_EQ(ReasonOf(CURLE_RECV_ERROR, required, true), kTlsFailed);
  EXPECT_EQ(ReasonOf(CURLE_RECV_ERROR, required, true, true), kBroken);
  EXPECT_EQ(
      ReasonOf(CURLE_RECV_ERROR,
               "OpenSSL SSL_read: error:0A000438:SSL routines::tlsv1 alert internal error", true),
      kBroken);
}

}  // namespace
}  // namespace capstan::kube
