// The HTTP face of FakeApiState, without time and connections.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_HTTP_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_HTTP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/object_converter.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_api_state.h"
#include "libs/kube/testing/http_target.h"
#include "libs/kube/testing/json.h"
#include "libs/kube/testing/watch_cursor.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube::testing {

// Above, 413: as kube-apiserver's --max-request-bytes.
inline constexpr size_t kMaxRequestBytes = 3 << 20;

struct HttpReply {
  HttpHead head;
  std::string body;
  // The reply is a stream, whose head this has.
  absl::optional<WatchPlan> watch;
  // Not 0: there is no reply before the store has this revision; ask again then, or with
  // `has_waited` after kFreshWait.
  int64_t wait_for = 0;
};

struct HandleOptions {
  // Lists and gets show the state so many revisions ago, as a lagging replica does.
  int64_t stale_by = 0;
  bool has_waited = false;
};

// How long the server waits for a revision that is still to come.
inline constexpr absl::Duration kFreshWait = absl::Seconds(3);

// What metav1.Status `error` looks like as a reply.
HttpReply ErrorReply(const ApiError& error, Encoding encoding = Encoding::kJson,
                     const ObjectConverter* converter = nullptr);

// For one thread. `state` and `converter` (null: JSON alone) must outlive it.
class FakeApiHttp {
 public:
  FakeApiHttp(FakeApiState* state, const ObjectConverter* converter, std::string git_version)
      : state_(state), converter_(converter), git_version_(std::move(git_version)) {}

  HttpReply Handle(const HttpRequest& request, const HandleOptions& options = {});

 private:
  struct Route {
    const FakeType* type = nullptr;
    // All of it, not one namespace's.
    std::string ns;
    // "" for the collection.
    std::string name;
    std::string subresource;
  };
  struct Context {
    const HttpRequest* request = nullptr;
    HttpTarget target;
    HandleOptions options;
    Encoding encoding = Encoding::kJson;
  };

  absl::optional<Route> FindRoute(const HttpTarget& target) const;
  HttpReply Serve(const Route& route, Context* context);
  HttpReply Discover(const Context& context) const;
  ApiOr<HttpReply> ServeCollection(const Route& route, const Context& context);
  ApiOr<HttpReply> ServeObject(const Route& route, const Context& context);
  ApiOr<HttpReply> ServeSubresource(const Route& route, const Context& context);
  ApiOr<HttpReply> List(const Route& route, const Context& context);
  ApiOr<HttpReply> Watch(const Route& route, const Context& context);
  ApiOr<HttpReply> Patch(const Route& route, const Context& context);
  ApiOr<HttpReply> Delete(const Route& route, const Context& context);
  ApiOr<HttpReply> DeleteCollection(const Route& route, const Context& context);
  ApiOr<HttpReply> GetOne(const Route& route, const Context& context);
  ApiOr<WriteOptions> ReadWriteOptions(const Context& context, absl::string_view options_kind,
                                       bool apply) const;
  ApiOr<DeleteOptions> ReadDeleteOptions(const Context& context) const;
  HttpReply Reply(int code, const Json& body, const Context& context) const;
  HttpReply Wait(int64_t revision, const Context& context) const;

  FakeApiState* const state_;
  const ObjectConverter* const converter_;
  const std::string git_version_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FAKE_API_HTTP_H_
