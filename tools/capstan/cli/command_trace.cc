#include "tools/capstan/cli/command_trace.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/rpc/observation.h"
#include "libs/trace/context.h"
#include "libs/trace/tracer.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "proto/capstan/config/v1/observation.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {
namespace {

// What a person waits for at most, if the receiver is not there.
constexpr absl::Duration kLastSpans = absl::Seconds(1);

std::unique_ptr<trace::Tracing> OpenTracing(const Invocation& invocation,
                                            metrics::Registry* registry) {
  trace::Tracing::Deps deps;
  deps.clock = invocation.clock;
  deps.metrics = registry;
  deps.seed = invocation.random->Next();
  deps.resource = {{"service.namespace", "capstan"},
                   {"service.name", "cli"},
                   {"process.pid", static_cast<int64_t>(getpid())}};
  // A command works as well without: nobody is told of what is missing here.
  config::v1::Traces traces;
  if (const auto endpoints = ReadEndpoints(invocation.data_dir); endpoints.ok()) {
    traces = endpoints->traces();
  }
  absl::StatusOr<std::unique_ptr<trace::Tracing>> opened = trace::Tracing::Open(traces, deps);
  if (!opened.ok()) opened = trace::Tracing::Open(config::v1::Traces(), deps);
  return *std::move(opened);
}

}  // namespace

CommandTrace::CommandTrace(const std::string& command, const char* traceparent,
                           const Invocation& invocation)
    : tracing_(OpenTracing(invocation, &registry_)) {
  trace::Tracer& tracer = *tracing_->tracer();
  const absl::optional<trace::Context> caller =
      traceparent == nullptr ? absl::nullopt : trace::Parse(traceparent);
  span_.context = caller ? tracer.NewChild(*caller) : tracer.NewTrace(/*background=*/false);
  span_.parent = caller ? caller->span : 0;
  span_.name = absl::StrCat("capstan ", command);
  span_.begin = tracer.Now();
  rpc::SetObservation({.access_log = nullptr, .tracer = tracing_->tracer()});
  trace::Scope::SetProcessContext(span_.context);
}

CommandTrace::~CommandTrace() {
  trace::Scope::SetProcessContext(absl::nullopt);
  rpc::SetObservation({});
}

void CommandTrace::End(const absl::Status& status) {
  if (!span_.context.sampled) return;
  span_.failed = !status.ok();
  if (span_.failed) span_.error = absl::StatusCodeToString(status.code());
  tracing_->tracer()->EndNow(std::move(span_));
  tracing_->Close(kLastSpans);
}

}  // namespace capstan::cli
