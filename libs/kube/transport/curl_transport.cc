#include "libs/kube/transport/curl_transport.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/transport/curl_exchange.h"
#include "libs/kube/transport/curl_loop.h"
#include "libs/kube/transport/delivery.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/libcurl/libcurl.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

class CurlCall final : public Call {
 public:
  CurlCall(std::shared_ptr<CurlLoop> loop, std::shared_ptr<Delivery> delivery, uint64_t id)
      : loop_(std::move(loop)), delivery_(std::move(delivery)), id_(id) {}
  ~CurlCall() override {
    delivery_->Cancel();
    loop_->Forget(id_);
  }

  void Resume() override {
    if (delivery_->Resume()) loop_->Resume(id_);
  }

 private:
  const std::shared_ptr<CurlLoop> loop_;
  const std::shared_ptr<Delivery> delivery_;
  const uint64_t id_;
};

class CurlTransport final : public Transport {
 public:
  explicit CurlTransport(std::shared_ptr<CurlLoop> loop) : loop_(std::move(loop)) {}
  ~CurlTransport() override { loop_->Stop(); }

  std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) override {
    auto delivery = std::make_shared<Delivery>(handler);
    const uint64_t id = next_id_++;
    absl::Status refusal = CheckRequest(request);
    auto call = std::make_unique<CurlCall>(loop_, delivery, id);
    loop_->Start(id, std::move(request), std::move(delivery), std::move(refusal));
    return call;
  }

 private:
  const std::shared_ptr<CurlLoop> loop_;
  std::atomic<uint64_t> next_id_{1};
};

absl::Status CheckOptions(const CurlTransportOptions& options) {
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
  return CheckImpersonation(options.impersonation);
}

// A host without a port means the usual one.
std::string HostLine(const Endpoint& endpoint) {
  constexpr int kHttpsPort = 443;
  std::string authority = endpoint.Authority();
  if (endpoint.tls && endpoint.port == kHttpsPort) {
    authority.resize(authority.size() - absl::string_view(":443").size());
  }
  return absl::StrCat("Host: ", authority);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeCurlTransport(CurlTransportOptions options,
                                                             CredentialSource* credentials,
                                                             const Clock* clock) {
  CAPSTAN_RETURN_IF_ERROR(CheckOptions(options));
  CurlSetup setup;
  CAPSTAN_ASSIGN_OR_RETURN(setup.endpoint, ParseEndpoint(options.server));
  if (!setup.endpoint.tls && !options.allow_plaintext) {
    return absl::InvalidArgumentError(
        "the API server's URL begins with http://, which shows credentials to the network; use "
        "https:// or allow plaintext");
  }
  CAPSTAN_ASSIGN_OR_RETURN(setup.libcurl, LoadLibcurl());
  setup.credentials = credentials;
  const Endpoint& endpoint = setup.endpoint;
  const std::string authority = endpoint.Authority();
  setup.lines = {"Expect:"};
  if (endpoint.tls && !options.tls_server_name.empty()) {
    // The URL's host is what libcurl asks for and verifies; where it connects to is another matter.
    setup.base_url = absl::StrCat("https://", options.tls_server_name, ":", endpoint.port);
    setup.connect_to = {setup.libcurl->slist_append(nullptr, absl::StrCat("::", authority).c_str()),
                        setup.libcurl->slist_free_all};
    setup.lines.push_back(HostLine(endpoint));
  } else {
    setup.base_url = absl::StrCat(endpoint.tls ? "https://" : "http://", authority);
  }
  absl::StrAppend(&setup.base_url, endpoint.prefix);
  for (const HttpHeader& header : ImpersonationHeaders(options.impersonation)) {
    setup.lines.push_back(absl::StrCat(header.name, ": ", header.value));
  }
  if (!BypassesProxy(options.no_proxy, endpoint)) setup.proxy = options.proxy;
  setup.options = std::move(options);
  auto loop = std::make_shared<CurlLoop>(std::move(setup), clock);
  CAPSTAN_RETURN_IF_ERROR(loop->Run());
  return std::make_unique<CurlTransport>(std::move(loop));
}

}  // namespace capstan::kube
