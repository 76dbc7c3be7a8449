#include "integration/overload/call_storm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/slice.h"
#include "libs/rpc/call.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::integration {
namespace {

// Longer than any answer should take; a call that is shed ends at once.
constexpr absl::Duration kPatience = absl::Seconds(30);

}  // namespace

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string JobWithoutRoom() {
  scheduler::v1::CreateJobRequest request;
  request.set_parent("projects/default");
  auto& group = *request.mutable_job()->mutable_spec()->add_task_groups();
  group.set_name("w");
  group.set_replicas(1);
  group.add_argv("/bin/true");
  group.mutable_resources()->set_cpu_millis(1'000'000);
  group.mutable_resources()->set_memory_bytes(1 << 20);
  return request.SerializeAsString();
}

int64_t StormEnd::all() const {
  int64_t sum = 0;
  for (const auto& [code, count] : ends) sum += count;
  return sum;
}

double StormEnd::PerSecond() const {
  return static_cast<double>(all()) / std::max(1e-3, absl::ToDoubleSeconds(lasted));
}

std::string StormEnd::Describe() const {
  std::string text =
      absl::StrCat(static_cast<int64_t>(PerSecond()), " calls/s, slowest ",
                   absl::FormatDuration(absl::Trunc(slowest, absl::Milliseconds(1))));
  for (const auto& [code, count] : ends) {
    absl::StrAppend(&text, "; code ", code, ": ", count);
    const auto message = messages.find(code);
    if (message != messages.end())
      absl::StrAppend(&text, " (", message->second.substr(0, 120), ")");
  }
  return text;
}

struct CallStorm::OneCall {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer answer;
  BootTime begun;
};

CallStorm::CallStorm(std::vector<std::shared_ptr<grpc::Channel>> channels, StormCall call,
                     int outstanding, const Clock* clock)
    : call_(std::move(call)), clock_(clock), begun_(clock->Read().boot) {
  for (auto& channel : channels) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(std::move(channel)));
  }
  for (int i = 0; i < outstanding; ++i) {
    Begin(static_cast<size_t>(i) % stubs_.size(), nullptr);
  }
}

CallStorm::CallStorm(std::vector<std::shared_ptr<grpc::Channel>> channels, std::string path,
                     const std::string& request, int outstanding, const Clock* clock)
    : CallStorm(std::move(channels),
                StormCall{.path = std::move(path),
                          .request = [same = BufferOf(request)](int64_t, size_t) { return same; }},
                outstanding, clock) {}

void CallStorm::Begin(size_t channel, const std::shared_ptr<OneCall>& instead_of) {
  auto call = std::make_shared<OneCall>();
  int64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    // Once none is under way the storm may be gone.
    if (instead_of != nullptr) under_way_.erase(instead_of);
    if (stopping_) return;
    number = next_++;
    under_way_.insert(call);
  }
  call->begun = clock_->Read().boot;
  call->request = call_.request(number, channel);
  if (!call_.grant.empty()) call->context.AddMetadata(rpc::kPlacementGrant, call_.grant);
  rpc::SetDeadline(call->context, kPatience);
  stubs_[channel]->UnaryCall(
      &call->context, call_.path, grpc::StubOptions(), &call->request, &call->answer,
      [this, call, channel](const grpc::Status& status) { Ended(call, channel, status); });
}

void CallStorm::Ended(const std::shared_ptr<OneCall>& call, size_t channel,
                      const grpc::Status& status) {
  const absl::Duration took = clock_->Read().boot - call->begun;
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) {
      ++end_.ends[status.error_code()];
      if (!status.ok()) end_.messages.emplace(status.error_code(), status.error_message());
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
          !status::GetRetryDelay(rpc::FromGrpcStatus(status)).has_value()) {
        ++end_.without_delay;
      }
      end_.slowest = std::max(end_.slowest, took);
    }
  }
  Begin(channel, call);
}

StormEnd CallStorm::Stop() {
  std::vector<std::shared_ptr<OneCall>> under_way;
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) {
      stopping_ = true;
      end_.stopped = clock_->Read().boot;
      end_.lasted = end_.stopped - begun_;
    }
    under_way.assign(under_way_.begin(), under_way_.end());
  }
  // Without the mutex, which what a cancellation leads to may want at once.
  for (const auto& call : under_way) call->context.TryCancel();
  under_way.clear();
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_.empty(); };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&over));
  return end_;
}

}  // namespace capstan::integration
