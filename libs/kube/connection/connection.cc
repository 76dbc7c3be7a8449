#include "libs/kube/connection/connection.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/config/make_credential_source.h"
#include "libs/kube/transport/make_transport.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

ClientOptions WithWarnings(const ConnectionOptions& options) {
  ClientOptions client = options.client;
  if (!client.on_warning && options.log.has_value()) {
    client.on_warning = [log = *options.log](const ServerWarning& warning) {
      log.Warning("kubernetes warns",
                  {{"method", warning.method}, {"path", warning.path}, {"warning", warning.text}});
    };
  }
  return client;
}

}  // namespace

TransportOptions TransportOptionsOf(const ClientConfig& config) {
  TransportOptions options;
  options.server = config.server;
  // The configuration has no credential for such a server.
  options.allow_plaintext = absl::StartsWith(config.server, "http://");
  options.ca_pem = config.ca_pem;
  options.tls_server_name = config.tls_server_name;
  options.insecure_skip_verify = config.insecure_skip_tls_verify;
  options.proxy = config.proxy_url;
  options.impersonation = config.impersonation;
  return options;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Environment& environment,
                                                             const LoadOptions& load,
                                                             const ConnectionOptions& options,
                                                             const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const ClientConfig config, LoadClientConfig(environment, load));
  if (config.insecure_skip_tls_verify && !options.allow_insecure) {
    return status::Error(absl::StatusCode::kFailedPrecondition, kInsecureServer,
                         absl::StrCat(config.origin,
                                      " says insecure-skip-tls-verify, which is not allowed here: "
                                      "name the server's CA in certificate-authority"));
  }
  if (options.log.has_value()) {
    for (const std::string& warning : config.warnings) options.log->Warning(warning);
  }
  TransportOptions transport_options = TransportOptionsOf(config);
  transport_options.user_agent = options.user_agent;
  std::unique_ptr<CredentialSource> credentials = MakeCredentialSource(config, environment, clock);
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                           MakeTransport(std::move(transport_options), credentials.get(), clock));
  return std::unique_ptr<Connection>(new Connection(std::move(credentials), std::move(transport),
                                                    options, config.namespace_name, clock));
}

Connection::Connection(std::unique_ptr<Transport> transport, const ConnectionOptions& options,
                       const Clock* clock)
    : Connection(nullptr, std::move(transport), options, "default", clock) {}

Connection::Connection(std::unique_ptr<CredentialSource> credentials,
                       std::unique_ptr<Transport> transport, const ConnectionOptions& options,
                       std::string ns, const Clock* clock)
    : ns_(std::move(ns)),
      credentials_(std::move(credentials)),
      transport_(std::move(transport)),
      random_(options.seed),
      call_strand_("kube-calls", clock),
      informer_strand_("kube-informers", clock),
      client_(std::make_unique<Client>(transport_.get(), &call_strand_, &random_,
                                       WithWarnings(options))),
      informers_(
          {transport_.get(), &informer_strand_, options.seed + 1, options.log, options.metrics}) {}

Connection::~Connection() {
  informers_.Stop();
  informer_strand_.Stop();
  // A client may go where its strand has stopped.
  call_strand_.Stop();
}

}  // namespace capstan::kube
