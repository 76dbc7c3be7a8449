// Many calls of a client, a bounded number at a time.
#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_BULK_CALLS_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_BULK_CALLS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/objects/resources.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::kube::bench {

absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& kubeconfig,
                                                    const Clock* clock);

// Starts `count` calls, `concurrency` at a time, on the strand, and waits for their ends. The first
// error.
using StartCall =
    std::function<std::unique_ptr<PendingCall>(int i, std::function<void(absl::Status)> done)>;
absl::Status Each(Strand* strand, int count, int concurrency, StartCall start);

template <typename T>
absl::Status CreateAll(Connection* connection, const TypedResource<T>& type, int count,
                       int concurrency, const std::function<T(int)>& make,
                       std::vector<std::string>* uids = nullptr) {
  const Resource<T> resource(connection->client(), type);
  return Each(connection->client()->strand(), count, concurrency,
              [&](int i, std::function<void(absl::Status)> done) {
                return resource.Create(
                    make(i), {}, [=, done = std::move(done)](absl::StatusOr<ObjectPtr<T>> made) {
                      if (made.ok() && uids != nullptr) {
                        (*uids)[static_cast<size_t>(i)] = (*made)->metadata().uid();
                      }
                      done(made.status());
                    });
              });
}

// A Pod that no scheduler takes.
core_v1::Pod MakePod(const std::string& ns, const std::string& name);
// As a training job's are: some 1,850 bytes as the server stores it.
core_v1::Pod MakeLargePod(const std::string& ns, const std::string& prefix, int i);
core_v1::Node MakeNode(int i);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_BULK_CALLS_H_
