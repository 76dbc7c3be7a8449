#include "services/node_agent/adapters/loader_reader_check.h"

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/rpc/call.h"
#include "proto/capstan/dataloader/v1/peer.grpc.pb.h"

namespace capstan::node_agent {
namespace {

namespace pb = ::capstan::dataloader::v1;
using Async = pb::PeerService::StubInterface::async_interface;

// Less than it takes to prepare a Task; a right that was taken away ends with it.
constexpr absl::Duration kRemembered = absl::Seconds(30);
constexpr size_t kMaxRemembered = 4096;
// Before the reader gives up waiting.
constexpr absl::Duration kDeadline = absl::Seconds(3);

class LoaderReaderCheck final : public ReaderCheck {
 public:
  LoaderReaderCheck(const std::shared_ptr<grpc::Channel>& channel, Strand* strand)
      : stub_(pb::PeerService::NewStub(channel)), strand_(strand) {}

  void Check(const std::string& reader, const pb::ContentRef& content,
             absl::AnyInvocable<void(absl::Status)> done) override {
    // No part has a line break: all are names, and what has one is nobody's.
    const std::string key = absl::StrCat(reader, "\n", content.resource(), "\n",
                                         content.manifest_digest(), "\n", content.holder());
    {
      absl::MutexLock lock(&state_->mutex);
      const auto known = state_->until.find(key);
      if (known != state_->until.end() && known->second > strand_->clock().Read().boot) {
        strand_->Post([done = std::move(done)]() mutable { done(absl::OkStatus()); });
        return;
      }
    }
    pb::CheckReaderRequest request;
    request.set_reader(reader);
    *request.mutable_content() = content;
    rpc::CallUnary(stub_.get(), &Async::CheckReader, std::move(request), {.deadline = kDeadline},
                   strand_,
                   [strand = strand_, state = state_, key,
                    done = std::move(done)](absl::StatusOr<pb::CheckReaderResponse> may) mutable {
                     if (may.ok()) {
                       absl::MutexLock lock(&state->mutex);
                       if (state->until.size() >= kMaxRemembered) state->until.clear();
                       state->until[key] = strand->clock().Read().boot + kRemembered;
                     }
                     done(may.status());
                   });
  }

 private:
  struct State {
    absl::Mutex mutex;
    // Until when who may read.
    std::map<std::string, BootTime> until ABSL_GUARDED_BY(mutex);
  };

  const std::unique_ptr<pb::PeerService::Stub> stub_;
  Strand* const strand_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

std::unique_ptr<ReaderCheck> MakeLoaderReaderCheck(const std::shared_ptr<grpc::Channel>& channel,
                                                   Strand* strand) {
  return std::make_unique<LoaderReaderCheck>(channel, strand);
}

}  // namespace capstan::node_agent
