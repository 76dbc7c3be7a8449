#include "integration/overload/call_storm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/slice.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::integration {
namespace {

// Longer than any answer should take; a call that is shed ends at once.
constexpr absl::Duration kPatience = absl::Seconds(30);

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

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
  grpc::ByteBuffer answer;
  BootTime begun;
};

CallStorm::CallStorm(std::vector<std::shared_ptr<grpc::Channel>> channels, std::string path,
                     const std::string& request, int outstanding, const Clock* clock)
    : path_(std::move(path)),
      request_(BufferOf(request)),
      clock_(clock),
      begun_(clock->Read().boot) {
  for (auto& channel : channels) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(std::move(channel)));
  }
  for (int i = 0; i < outstanding; ++i) {
    {
      absl::MutexLock lock(&mutex_);
      ++under_way_;
    }
    Begin(stubs_[static_cast<size_t>(i) % stubs_.size()].get());
  }
}

void CallStorm::Begin(grpc::GenericStub* stub) {
  auto call = std::make_unique<OneCall>();
  call->begun = clock_->Read().boot;
  rpc::SetDeadline(call->context, kPatience);
  OneCall* const raw = call.release();
  stub->UnaryCall(&raw->context, path_, grpc::StubOptions(), &request_, &raw->answer,
                  [this, raw, stub](grpc::Status status) {
                    Ended(std::unique_ptr<OneCall>(raw), stub, status);
                  });
}

void CallStorm::Ended(std::unique_ptr<OneCall> call, grpc::GenericStub* stub,
                      const grpc::Status& status) {
  const absl::Duration took = clock_->Read().boot - call->begun;
  call.reset();
  {
    absl::MutexLock lock(&mutex_);
    ++end_.ends[status.error_code()];
    if (!status.ok()) end_.messages.emplace(status.error_code(), status.error_message());
    if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
        !status::GetRetryDelay(rpc::FromGrpcStatus(status)).has_value()) {
      ++end_.without_delay;
    }
    end_.slowest = std::max(end_.slowest, took);
    if (stopping_) {
      --under_way_;
      return;
    }
  }
  Begin(stub);
}

StormEnd CallStorm::Stop() {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) {
    stopping_ = true;
    end_.lasted = clock_->Read().boot - begun_;
  }
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_ == 0; };
  mutex_.Await(absl::Condition(&over));
  return end_;
}

}  // namespace capstan::integration
