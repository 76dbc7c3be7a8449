#include "libs/auth/policy_watcher.h"

#include <utility>

#include "absl/time/time.h"
#include "libs/rpc/client_stream.h"

namespace capstan::auth {
namespace {

using credentials::v1::PolicyService;
using credentials::v1::PolicySnapshot;
using credentials::v1::WatchPolicyRequest;

}  // namespace

struct PolicyWatcher::Link {
  // Null once the watcher has given the stream up.
  PolicyWatcher* watcher;
  std::shared_ptr<rpc::StreamReader<WatchPolicyRequest, PolicySnapshot>> reader;
};

PolicyWatcher::PolicyWatcher(PolicyService::StubInterface* stub, PolicyHolder* holder,
                             Strand* strand, Random* random)
    : stub_(stub),
      holder_(holder),
      strand_(strand),
      reconnect_(strand, random, [this] { Connect(); }) {}

PolicyWatcher::~PolicyWatcher() {
  if (silence_timer_ != 0) strand_->Cancel(silence_timer_);
  if (link_ == nullptr) return;
  link_->watcher = nullptr;
  if (link_->reader != nullptr) link_->reader->Cancel();
}

void PolicyWatcher::Start(absl::AnyInvocable<void()> on_first) {
  on_first_ = std::move(on_first);
  reconnect_.Start();
}

void PolicyWatcher::Connect() {
  link_ = std::make_shared<Link>(Link{this, nullptr});
  rpc::SessionCallbacks<PolicySnapshot> callbacks;
  callbacks.on_message = [link = link_](const PolicySnapshot& snapshot) {
    if (link->watcher != nullptr) link->watcher->OnSnapshot(snapshot);
  };
  callbacks.on_closed = [link = link_](const absl::Status&) {
    link->reader = nullptr;
    if (link->watcher != nullptr) link->watcher->OnClosed();
  };
  link_->reader =
      rpc::OpenStream(stub_, &PolicyService::StubInterface::async_interface::WatchPolicy,
                      WatchPolicyRequest(), strand_, std::move(callbacks));
  ExpectMessage(absl::Seconds(30));
}

void PolicyWatcher::OnSnapshot(const PolicySnapshot& snapshot) {
  holder_->Set(std::make_shared<Policy>(snapshot, strand_->clock().Read().boot));
  reconnect_.Succeeded();
  ExpectMessage(absl::Seconds(snapshot.valid_seconds()) / 2);
  if (on_first_) std::exchange(on_first_, nullptr)();
}

void PolicyWatcher::OnClosed() {
  link_ = nullptr;
  if (silence_timer_ != 0) strand_->Cancel(silence_timer_);
  silence_timer_ = 0;
  reconnect_.Lost();
}

void PolicyWatcher::ExpectMessage(absl::Duration life) {
  if (silence_timer_ != 0) strand_->Cancel(silence_timer_);
  silence_timer_ = strand_->RunAfter(life, [this] {
    silence_timer_ = 0;
    // OnClosed follows.
    if (link_ != nullptr && link_->reader != nullptr) link_->reader->Cancel();
  });
}

}  // namespace capstan::auth
