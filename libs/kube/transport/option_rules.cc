#include "libs/kube/transport/option_rules.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {

absl::StatusOr<Endpoint> CheckOptions(const TransportOptions& options) {
  const auto is_name = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  };
  if (!std::all_of(options.tls_server_name.begin(), options.tls_server_name.end(), is_name)) {
    return absl::InvalidArgumentError("the TLS server name must be a DNS name or an IPv4 address");
  }
  if (options.user_agent.empty() || !IsHeaderValue(options.user_agent)) {
    return absl::InvalidArgumentError("the user agent is empty or has a control character");
  }
  if (!options.proxy.empty() && !absl::StartsWith(options.proxy, "http://") &&
      !absl::StartsWith(options.proxy, "https://") &&
      !absl::StartsWith(options.proxy, "socks5://") &&
      !absl::StartsWith(options.proxy, "socks5h://")) {
    return absl::InvalidArgumentError(
        "the proxy must begin with http://, https://, socks5:// or socks5h://");
  }
  if (options.connect_timeout <= absl::ZeroDuration() ||
      options.keepalive_idle <= absl::ZeroDuration() ||
      options.keepalive_timeout <= absl::ZeroDuration() ||
      options.longest_stall <= absl::ZeroDuration() || options.max_connections < 1 ||
      options.max_streams < 1 || options.max_calls < 1) {
    return absl::InvalidArgumentError("times and bounds of the transport must be above 0");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckImpersonation(options.impersonation));
  CAPSTAN_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(options.server));
  if (!endpoint.tls && !options.allow_plaintext) {
    return absl::InvalidArgumentError(
        "the API server's URL begins with http://, which shows credentials to the network; use "
        "https:// or allow plaintext");
  }
  return endpoint;
}

bool NeedsLibcurl(const TransportOptions& options, const Endpoint& endpoint) {
  const bool proxied = !options.proxy.empty() && !BypassesProxy(options.no_proxy, endpoint);
  return !endpoint.tls || proxied || options.gzip;
}

TlsSettings TlsSettingsOf(const TransportOptions& options, const Endpoint& endpoint,
                          absl::string_view protocols) {
  TlsSettings settings;
  settings.ca_pem = options.ca_pem;
  settings.server_name = options.tls_server_name.empty() ? endpoint.host : options.tls_server_name;
  settings.insecure_skip_verify = options.insecure_skip_verify;
  settings.protocols = std::string(protocols);
  return settings;
}

std::string HostHeader(const Endpoint& endpoint) {
  constexpr int kHttpsPort = 443;
  std::string authority = endpoint.Authority();
  if (endpoint.tls && endpoint.port == kHttpsPort) {
    authority.resize(authority.size() - absl::string_view(":443").size());
  }
  return authority;
}

}  // namespace capstan::kube
