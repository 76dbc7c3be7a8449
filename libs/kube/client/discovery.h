#ifndef CAPSTAN_LIBS_KUBE_CLIENT_DISCOVERY_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_DISCOVERY_H_

#include <memory>

#include "libs/kube/client/api_catalog.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/typed_client.h"

namespace capstan::kube {

// On the client's strand, as all calls.
[[nodiscard]] std::unique_ptr<PendingCall> GetServerVersion(Client* client,
                                                            DoneWith<ServerVersion> done);

// All that the server serves: two requests where it has aggregated discovery (1.27 and later),
// else one for each version of each group. An aggregated API server that does not answer hides
// what it serves, not the rest: ApiCatalog::Require tells the two apart.
[[nodiscard]] std::unique_ptr<PendingCall> Discover(Client* client, DoneWith<ApiCatalog> done);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_DISCOVERY_H_
