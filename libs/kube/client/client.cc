#include "libs/kube/client/client.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/kube/client/client_core.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

std::string Path(const ApiRequest& request) {
  return request.target.substr(0, request.target.find('?'));
}

}  // namespace

Client::Client(Transport* transport, Strand* strand, Random* random, ClientOptions options)
    : core_(std::make_shared<Core>(transport, strand, random, std::move(options))) {}

Client::~Client() {
  // Each takes itself out of the set.
  while (!core_->open.empty()) (*core_->open.begin())->Cancel();
}

std::unique_ptr<PendingCall> Client::Start(ApiRequest request, Done done) {
  return StartUnary(core_, std::move(request), std::move(done));
}

std::unique_ptr<PendingStream> Client::Stream(ApiRequest request, StreamReader* reader) {
  return StartStream(core_, std::move(request), reader);
}

Strand* Client::strand() const { return core_->strand; }

HttpRequest Client::Core::MakeHttp(const ApiRequest& request, absl::Duration timeout) const {
  HttpRequest http;
  http.method = request.method;
  http.target = request.target;
  http.headers = request.headers;
  http.body = request.body;
  http.timeout = timeout;
  return http;
}

void Client::Core::Warn(const ApiRequest& request, const std::vector<HttpHeader>& headers) const {
  if (!options.on_warning) return;
  for (std::string& text : ReadWarnings(headers)) {
    options.on_warning({request.method, Path(request), std::move(text)});
  }
}

absl::Status OfCall(const ApiRequest& request, const absl::Status& status) {
  return status::Annotate(status, absl::StrCat(request.method, " ", Path(request)));
}

}  // namespace capstan::kube
