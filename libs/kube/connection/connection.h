// One API server: what a controller or a tool is made on, put together.
#ifndef CAPSTAN_LIBS_KUBE_CONNECTION_CONNECTION_H_
#define CAPSTAN_LIBS_KUBE_CONNECTION_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"
#include "libs/kube/config/load_client_config.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/informer_set.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/strand/strand.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Reason of FAILED_PRECONDITION: the configuration says that the server's certificate is not to be
// verified, which was not allowed.
inline constexpr char kInsecureServer[] = "KUBE_INSECURE_SERVER";

struct ConnectionOptions {
  ClientOptions client{};
  std::string user_agent = "capstan";
  // Allows what ClientConfig::insecure_skip_tls_verify asks for.
  bool allow_insecure = false;
  // Of the jitter of waits.
  uint64_t seed = 0;
  // Of warnings, the server's and the configuration's, and of what informers cannot follow.
  absl::optional<log::Logger> log{};
  // Null: none.
  metrics::Registry* metrics = nullptr;
};

// Transport, credentials, a client, informers and their strands: calls and informers have one each,
// so that no call waits for the decoding of a list. What else uses it ends before it does:
// reconcilers are stopped, blocking calls have returned. Thread-safe.
class Connection {
 public:
  // Blocks on files. Errors are those of LoadClientConfig and MakeTransport, and
  // kInsecureServer. `clock` must outlive the connection.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Environment& environment,
                                                          const LoadOptions& load,
                                                          const ConnectionOptions& options,
                                                          const Clock* clock);
  // Over a transport that is there.
  Connection(std::unique_ptr<Transport> transport, const ConnectionOptions& options,
             const Clock* clock);
  // Stops the informers first. Not from one of its strands.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Of the context, for calls that name none; `default` over a transport that was given.
  const std::string& ns() const { return ns_; }
  Transport* transport() { return transport_.get(); }
  // Belongs to its strand.
  Client* client() { return client_.get(); }
  // Where informers decode; reconcilers may share it.
  Strand* informer_strand() { return &informer_strand_; }
  // Made by Follow, and to be started.
  InformerSet* informers() { return &informers_; }

  // For any thread but the strands'.
  template <typename T>
  BlockingResource<T> Calls(const TypedResource<T>& resource) {
    return BlockingResource<T>(Resource<T>(client_.get(), resource));
  }
  // As InformerSet::Get: the type of the scope is `resource`'s, the rest as `options` say.
  template <typename T>
  absl::StatusOr<Informer<T>*> Follow(const TypedResource<T>& resource,
                                      InformerOptions<T> options = {}) {
    options.scope.type = resource.type();
    std::shared_ptr<const Codec<T>> codec = MakeCodec<T>(options.scope.type);
    const Codec<T>* const kept = codec.get();
    {
      absl::MutexLock lock(&mutex_);
      codecs_.push_back(std::move(codec));
    }
    return informers_.Get(std::move(options), kept);
  }

 private:
  Connection(std::unique_ptr<CredentialSource> credentials, std::unique_ptr<Transport> transport,
             const ConnectionOptions& options, std::string ns, const Clock* clock);

  const std::string ns_;
  const std::unique_ptr<CredentialSource> credentials_;
  const std::unique_ptr<Transport> transport_;
  Random random_;
  ThreadStrand call_strand_;
  ThreadStrand informer_strand_;
  absl::Mutex mutex_;
  // What informers decode with, however often it was asked for.
  std::vector<std::shared_ptr<const void>> codecs_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Client> client_;
  InformerSet informers_;
};

// How a transport reaches what the configuration says.
TransportOptions TransportOptionsOf(const ClientConfig& config);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONNECTION_CONNECTION_H_
