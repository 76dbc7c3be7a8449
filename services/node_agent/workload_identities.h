#ifndef CAPSTAN_SERVICES_NODE_AGENT_WORKLOAD_IDENTITIES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_WORKLOAD_IDENTITIES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/jose/key_set.h"
#include "libs/log/log.h"
#include "libs/session/task_id.h"
#include "libs/strand/strand.h"
#include "proto/spiffe/workload/workload.pb.h"
#include "services/node_agent/ports/task_identity.h"
#include "services/node_agent/ports/task_tokens.h"
#include "services/node_agent/ports/workload_api.h"

namespace capstan::node_agent {

// Where the messages of one open stream of the Workload API go. Lives on the agent's strand.
template <typename Message>
class WorkloadStream {
 public:
  virtual ~WorkloadStream() = default;
  // Errors when the stream is over, or its peer reads too slowly.
  virtual absl::Status Write(Message message) = 0;
  virtual void Finish(const absl::Status& status) = 0;
};

// What the Workload API answers for each Task of this Node. Lives on the agent's strand.
//
// A stream's first message comes as soon as there is something to say, then one with every change;
// each is the whole state. A peer that does not read is ended with UNAVAILABLE: it comes again.
//
// Tokens are kept for half of their lives, so that a Task may ask for one before each of its calls;
// at most kMaxTokens a Task, the one that ends first, of those the oldest, leaves. The keys that
// tokens are verified with are asked for as often as credentials says, and with back-off while it
// does not answer; the last ones stay good meanwhile.
class WorkloadIdentities final : public WorkloadApi {
 public:
  static constexpr size_t kMaxStreams = 32;
  static constexpr size_t kMaxTokens = 64;
  static constexpr size_t kMaxPending = 8;
  static constexpr int kMaxAudiences = 8;
  // What tells a Task's two identities apart.
  static constexpr char kTaskHint[] = "task";
  static constexpr char kAccountHint[] = "service-account";

  // A Task was refused something: for the audit log. `act` is the full method.
  using Refused = std::function<void(const std::string& spiffe_id, const std::string& act,
                                     const std::string& resource, const absl::Status& why)>;
  struct Deps {
    // All must outlive it.
    Strand* strand = nullptr;
    TaskIdentity* identity = nullptr;
    TaskTokens* tokens = nullptr;
    const log::Logger* logger = nullptr;
    Refused refused{};
  };
  explicit WorkloadIdentities(Deps deps);
  ~WorkloadIdentities() override;

  void Serve(const KeepIdentity& order) override;
  void Renewed(const session::TaskId& id) override;
  void Close(const session::TaskId& id) override;
  // Closes all Tasks.
  void CloseAll();

  // Opens streams; a Task that is not served has none: PERMISSION_DENIED.
  void FetchX509Svid(const session::TaskId& id,
                     std::shared_ptr<WorkloadStream<::X509SVIDResponse>> stream);
  void FetchX509Bundles(const session::TaskId& id,
                        std::shared_ptr<WorkloadStream<::X509BundlesResponse>> stream);
  void FetchJwtBundles(const session::TaskId& id,
                       std::shared_ptr<WorkloadStream<::JWTBundlesResponse>> stream);
  using JwtDone = absl::AnyInvocable<void(absl::StatusOr<::JWTSVIDResponse>)>;
  // Tokens of the Task and of its service account, in this order, or of the one that is asked for.
  void FetchJwtSvid(const session::TaskId& id, const ::JWTSVIDRequest& request, JwtDone done);
  // INVALID_ARGUMENT for a token that is not to be believed.
  absl::StatusOr<::ValidateJWTSVIDResponse> ValidateJwtSvid(
      const session::TaskId& id, const ::ValidateJWTSVIDRequest& request) const;

  // PERMISSION_DENIED: what whoever is no Task is told.
  static absl::Status NoIdentity();

 private:
  template <typename Message>
  using Streams = std::vector<std::shared_ptr<WorkloadStream<Message>>>;
  // Whether for the service account, and the audiences, sorted.
  using TokenKey = std::pair<bool, std::vector<std::string>>;
  struct KeptToken {
    TaskToken token;
    absl::Time use_until;
    // Order of coming.
    uint64_t number = 0;
  };
  struct Entry {
    KeepIdentity order;
    // Tells this Serve from a later one of the same Task, for answers that come late.
    uint64_t number = 0;
    absl::optional<TaskSvid> svid;
    std::string spiffe_id;
    std::string account_id;
    std::string trust_domain;
    Streams<::X509SVIDResponse> x509;
    Streams<::X509BundlesResponse> x509_bundles;
    Streams<::JWTBundlesResponse> jwt_bundles;
    std::map<TokenKey, KeptToken> tokens;
    // Calls that wait for tokens: each is answered once, at the latest by Close.
    std::map<uint64_t, JwtDone> pending;
  };
  // One FetchJwtSvid under way.
  struct Fetch {
    session::TaskId id;
    uint64_t number = 0;
    uint64_t call = 0;
    std::vector<bool> subjects;
    std::vector<std::string> audiences;
    ::JWTSVIDResponse response;
  };

  Entry* Find(const session::TaskId& id, uint64_t number);
  void Load(Entry& entry);
  void Loaded(Entry& entry, TaskSvid svid);
  void GoOn(std::shared_ptr<Fetch> fetch);
  void OnToken(const std::shared_ptr<Fetch>& fetch, const TokenKey& key,
               absl::StatusOr<TaskToken> token);
  void Answer(const Fetch& fetch, absl::StatusOr<::JWTSVIDResponse> response);
  void AskForKeys();
  void OnKeys(absl::StatusOr<TokenKeys> keys);
  ::X509SVIDResponse X509State(const Entry& entry) const;
  ::X509BundlesResponse X509Bundles(const Entry& entry) const;
  ::JWTBundlesResponse JwtBundles() const;

  const Deps deps_;
  uint64_t last_number_ = 0;
  std::map<session::TaskId, Entry> entries_;
  absl::optional<TokenKeys> keys_;
  absl::optional<jose::KeySet> key_set_;
  int key_failures_ = 0;
  bool asking_ = false;
  Strand::TimerId keys_timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_WORKLOAD_IDENTITIES_H_
