// What Pods have besides being objects. On the client's strand.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_POD_CALLS_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_POD_CALLS_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/request.h"

namespace capstan::kube {

// Deletes the Pod if its PodDisruptionBudgets allow it. Errors with a meaning of their own:
// kDisruptionBudget (not now), kNotFound (it is gone), kNamespaceTerminating (leave it to the
// namespace's controller), kConflict (it is not the Pod of `options.uid`).
[[nodiscard]] std::unique_ptr<PendingCall> EvictPod(Client* client, absl::string_view ns,
                                                    absl::string_view name,
                                                    const DeleteOptions& options,
                                                    Client::Done done);

// Puts the Pod on the node, once and for all: kConflict if it is on one, or is not the Pod of `uid`
// (which may be empty). Whoever was not answered reads the Pod.
[[nodiscard]] std::unique_ptr<PendingCall> BindPod(Client* client, absl::string_view ns,
                                                   absl::string_view name, absl::string_view uid,
                                                   absl::string_view node, Client::Done done);

// A container's log; with `follow` until it ends. What its lines are is the container's business.
[[nodiscard]] std::unique_ptr<PendingStream> StreamLog(Client* client, absl::string_view ns,
                                                       absl::string_view name,
                                                       const LogOptions& options,
                                                       StreamReader* reader);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_POD_CALLS_H_
