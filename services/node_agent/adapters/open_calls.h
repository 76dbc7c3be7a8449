#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_OPEN_CALLS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_OPEN_CALLS_H_

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/call.h"

namespace capstan::node_agent {

// The calls that threads wait for, so that they can be ended together. Thread-safe.
class OpenCalls {
 public:
  // A call under way, on the stack of who makes it.
  class Call {
   public:
    Call(OpenCalls* calls, absl::Duration deadline) : calls_(calls) {
      rpc::SetDeadline(context_, deadline);
      absl::MutexLock lock(&calls_->mutex_);
      calls_->open_.insert(&context_);
      if (calls_->stopped_) context_.TryCancel();
    }
    ~Call() {
      absl::MutexLock lock(&calls_->mutex_);
      calls_->open_.erase(&context_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    grpc::ClientContext* context() { return &context_; }

   private:
    OpenCalls* const calls_;
    grpc::ClientContext context_;
  };

  // Ends those that are open, and all later ones.
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    for (grpc::ClientContext* context : open_) context->TryCancel();
  }

 private:
  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> open_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_OPEN_CALLS_H_
