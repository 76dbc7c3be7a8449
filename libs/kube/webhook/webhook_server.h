// A server for the admission webhooks of Kubernetes: HTTPS, AdmissionReview v1.
#ifndef CAPSTAN_LIBS_KUBE_WEBHOOK_WEBHOOK_SERVER_H_
#define CAPSTAN_LIBS_KUBE_WEBHOOK_WEBHOOK_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/kube/webhook/admission_review.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// What a server shows who connects, as PEM.
struct ServerCertificate {
  // The leaf first, then what leads up to a root.
  std::string chain_pem;
  std::string key_pem;
};

// Answers reviews. Called from the server's threads, several at a time; must not block.
class AdmissionHandler {
 public:
  // Any thread, also inline; what comes after the first call, or too late, counts not.
  using Done = std::function<void(AdmissionResponse)>;

  virtual ~AdmissionHandler() = default;
  virtual void Review(AdmissionRequest request, Done done) = 0;
};

// What became of one request; for metrics.
struct WebhookOutcome {
  // Of the handler; empty if no handler was asked.
  std::string path;
  // HTTP status of the answer: 200, whatever the review says, if a handler gave one.
  int status = 0;
  bool allowed = false;
  // From the whole request to the answer.
  absl::Duration took;
};

// Thread-safe. HTTP/1.1 over TLS 1.2 or later; a connection takes one request after the other.
//
//   POST <path of a handler>, application/json   200 and the review
//   GET /healthz                                 200
//
// Anything else gets an HTTP error, upon which the API server does what the webhook's failurePolicy
// says: 400 no AdmissionReview of v1; 404, 405, 413, 415; 503 while too many reviews are under way;
// 504 if the handler has not answered within `answer_within`, or within the `timeout` that the
// server put in the URL, less a tenth, whichever comes first. So whoever fails closed sets
// failurePolicy: Fail; this server never makes up a review.
//
// As long as the server is there it ends a connection only after an answer that says so
// (Connection: close), or after a silence that is longer than API servers keep one (90 s), so that
// no call is lost to it.
class WebhookServer {
 public:
  struct Options {
    // 0.0.0.0 and :: take all of the machine's.
    std::string host = "127.0.0.1";
    // 0 takes a free one.
    int port = 0;
    int threads = 2;
    // At first; later ones come by SetCertificate.
    ServerCertificate certificate;
    // If set, who connects must show a certificate up to one of these roots (PEM): of API servers
    // that are given one by --admission-control-config-file.
    std::string client_roots_pem;
    // An AdmissionReview has up to two objects, of at most 3 MiB in a request.
    size_t max_body_bytes = 8 << 20;
    size_t max_connections = 1024;
    size_t max_reviews = 4096;
    absl::Duration request_within = absl::Seconds(10);
    absl::Duration answer_within = absl::Seconds(10);
    absl::Duration idle = absl::Minutes(5);
    // A connection that is older ends with its next answer, so that who asks checks our certificate
    // again.
    absl::Duration max_connection_age = absl::Minutes(10);
    // For ages and durations; outlives the server.
    const Clock* clock = nullptr;
    // Called from the server's threads; may be null, must not block.
    std::function<void(const WebhookOutcome&)> observe = nullptr;
  };

  // Handlers by path (`/validate-jobs`), which outlive the server; the query is no part of it.
  // FAILED_PRECONDITION with reason WEBHOOK_PORT_UNAVAILABLE; INVALID_ARGUMENT with reason
  // WEBHOOK_CERTIFICATE_UNUSABLE if the certificate or the roots cannot be used.
  static absl::StatusOr<std::unique_ptr<WebhookServer>> Create(
      Options options, std::map<std::string, AdmissionHandler*> handlers);
  // Ends every connection. No handler is called any more; an answer that comes later is dropped, so
  // `Done` may outlive the server.
  virtual ~WebhookServer() = default;

  // Whoever connects from now on is shown this one. Connections that are there end with their next
  // answer; none is cut. An error, as of Create, changes nothing.
  virtual absl::Status SetCertificate(const ServerCertificate& certificate) = 0;

  // Takes no more connections, ends each with its next answer, and returns once none has a request
  // under way, or after `grace`; false if some had. To be called once API servers were told to ask
  // somebody else, since one that is silent may ask at any time.
  virtual bool Drain(absl::Duration grace) = 0;

  virtual int port() const = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_WEBHOOK_WEBHOOK_SERVER_H_
