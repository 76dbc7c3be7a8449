#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_PLATFORM_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_PLATFORM_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "libs/rpc/identity.h"
#include "libs/time/clock.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// `$CAPSTAN_DATA_DIR`, else `$XDG_STATE_HOME/capstan/dev`, else `~/.local/state/capstan/dev`. Null
// stands for an unset variable.
std::string DefaultDataDir(const char* capstan_data_dir, const char* xdg_state_home,
                           const char* home);

// Reads `<data_dir>/endpoints.json`. UNAVAILABLE, with the way out, if there is none.
absl::StatusOr<v1::Endpoints> ReadEndpoints(const std::string& data_dir);

// A running platform as a person sees it: mTLS channels to its services, with the person's own
// short-lived SVID. For one thread at a time.
class Platform {
 public:
  // Finds the platform; speaks to nobody yet. The invocation's clock and random engine must outlive
  // it.
  static absl::StatusOr<std::unique_ptr<Platform>> Open(const Invocation& invocation);

  // Where the replicas of a service, e.g. `scheduler`, are to be asked: at least one, sorted.
  // UNAVAILABLE if the platform runs none.
  absl::StatusOr<std::vector<std::string>> Replicas(absl::string_view service) const;

  // A channel to whichever of them leads. The first call gets the person's SVID if the one kept
  // is missing or has less than a third of its life left.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Channel(absl::string_view service);

  // The person's identity, fetched if need be.
  absl::StatusOr<std::shared_ptr<const rpc::Identity>> Identity();

  const v1::Endpoints& endpoints() const { return endpoints_; }

 private:
  Platform(const Invocation& invocation, v1::Endpoints endpoints)
      : data_dir_(invocation.data_dir),
        endpoints_(std::move(endpoints)),
        clock_(invocation.clock),
        random_(invocation.random) {}

  const std::string data_dir_;
  const v1::Endpoints endpoints_;
  const Clock* const clock_;
  Random* const random_;
  std::shared_ptr<const rpc::Identity> identity_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_PLATFORM_H_
