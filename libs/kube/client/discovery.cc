#include "libs/kube/client/discovery.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/retry.h"

namespace capstan::kube {
namespace {

constexpr char kAggregated[] =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json";

ApiRequest Read(std::string target, const char* accept) {
  ApiRequest request;
  request.target = std::move(target);
  request.headers.push_back({"Accept", accept});
  request.repeat = Repeat::kHarmless;
  return request;
}

// One request after the other: /api, /apis, then the groups that neither has told of.
class Discovery final : public PendingCall {
 public:
  Discovery(Client* client, DoneWith<ApiCatalog> done) : client_(client), done_(std::move(done)) {
    Ask("/api", kAggregated, &Discovery::OnRoot);
  }

 private:
  using Next = void (Discovery::*)(absl::StatusOr<ApiResponse>);

  void Ask(std::string target, const char* accept, Next next) {
    call_ = client_->Start(
        Read(std::move(target), accept),
        [this, next](absl::StatusOr<ApiResponse> response) { (this->*next)(std::move(response)); });
  }

  void OnRoot(absl::StatusOr<ApiResponse> response) {
    if (!response.ok()) return End(response.status());
    const absl::StatusOr<bool> aggregated = AddAggregatedDiscovery(response->body, &catalog_);
    if (!aggregated.ok()) return End(aggregated.status());
    if (!*aggregated) {
      auto groups = ParseGroups(response->body);
      if (!groups.ok()) return End(groups.status());
      for (GroupVersionName& group : *groups) left_.push_back(std::move(group));
    }
    if (++roots_ == 1) return Ask("/apis", kAggregated, &Discovery::OnRoot);
    AskForNext();
  }

  void AskForNext() {
    if (at_ == left_.size()) return End(std::move(catalog_));
    const GroupVersionName& name = left_[at_];
    // Names are the server's own; each is one segment.
    const std::string root = name.group.empty() ? "/api" : absl::StrCat("/apis/", name.group);
    Ask(absl::StrCat(root, "/", name.version), "application/json", &Discovery::OnResources);
  }

  void OnResources(absl::StatusOr<ApiResponse> response) {
    const GroupVersionName& name = left_[at_++];
    if (response.ok()) {
      const absl::Status added = AddResourceList(response->body, name, &catalog_);
      if (!added.ok()) return End(added);
    } else {
      catalog_.AddUnavailable(name.group, name.version);
    }
    AskForNext();
  }

  // The callback may destroy this.
  void End(absl::StatusOr<ApiCatalog> result) {
    DoneWith<ApiCatalog> done = std::move(done_);
    done(std::move(result));
  }

  Client* const client_;
  DoneWith<ApiCatalog> done_;
  ApiCatalog catalog_;
  int roots_ = 0;
  std::vector<GroupVersionName> left_;
  size_t at_ = 0;
  std::unique_ptr<PendingCall> call_;
};

}  // namespace

std::unique_ptr<PendingCall> GetServerVersion(Client* client, DoneWith<ServerVersion> done) {
  return client->Start(Read("/version", "application/json"),
                       [done = std::move(done)](absl::StatusOr<ApiResponse> response) mutable {
                         if (!response.ok()) return done(response.status());
                         done(ParseServerVersion(response->body));
                       });
}

std::unique_ptr<PendingCall> Discover(Client* client, DoneWith<ApiCatalog> done) {
  return std::make_unique<Discovery>(client, std::move(done));
}

}  // namespace capstan::kube
