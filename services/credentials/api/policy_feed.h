#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_POLICY_FEED_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_POLICY_FEED_H_

#include <cstdint>
#include <map>
#include <memory>

#include "libs/auth/policy.h"
#include "libs/rpc/server_stream.h"
#include "libs/strand/strand.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace capstan::credentials {

// Brings the committed policy to those who decide from it: this process's own PolicyHolder, and
// everyone who watches. Each gets the whole snapshot at once, on every change, and every third of
// its life. A watcher that reads too slowly misses snapshots in between, never the newest one. On
// the strand only.
class PolicyFeed {
 public:
  using Writer = rpc::ServerStreamWriter<v1::PolicySnapshot>;

  // All must outlive the feed.
  PolicyFeed(Strand* strand, auth::PolicyHolder* holder) : strand_(strand), holder_(holder) {}
  ~PolicyFeed();
  PolicyFeed(const PolicyFeed&) = delete;
  PolicyFeed& operator=(const PolicyFeed&) = delete;

  // Null: this process may no longer say what the policy is: every stream ends, so that its watcher
  // asks elsewhere. What was given out runs on until it expires.
  void Publish(std::shared_ptr<const v1::PolicySnapshot> snapshot);
  void AddWatcher(std::shared_ptr<Writer> writer);
  // Ends every stream, so that a server can stop.
  void EndAll(const absl::Status& status);

 private:
  struct Watcher {
    std::shared_ptr<Writer> writer;
    // A snapshot was left out; the newest is due once the stream has room.
    bool behind = false;
  };

  void SendToAll();
  void Send(int64_t id, Watcher* watcher);
  void ArmTimer();

  Strand* const strand_;
  auth::PolicyHolder* const holder_;
  std::shared_ptr<const v1::PolicySnapshot> snapshot_;
  int64_t next_watcher_ = 1;
  std::map<int64_t, Watcher> watchers_;
  Strand::TimerId timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_POLICY_FEED_H_
