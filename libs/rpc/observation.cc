#include "libs/rpc/observation.h"

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/interceptor.h"
#include "grpcpp/support/status.h"
#include "grpcpp/support/string_ref.h"
#include "libs/rpc/peer.h"
#include "libs/time/clock.h"
#include "libs/trace/span.h"

namespace capstan::rpc {
namespace {

using ::grpc::experimental::ClientRpcInfo;
using ::grpc::experimental::InterceptionHookPoints;
using ::grpc::experimental::Interceptor;
using ::grpc::experimental::InterceptorBatchMethods;
using ::grpc::experimental::ServerRpcInfo;

class CurrentObservation {
 public:
  void Set(Observation observation) {
    absl::MutexLock lock(&mutex_);
    observation_ = std::move(observation);
  }
  Observation Get() {
    absl::MutexLock lock(&mutex_);
    return observation_;
  }

 private:
  absl::Mutex mutex_;
  Observation observation_ ABSL_GUARDED_BY(mutex_);
};

CurrentObservation& Current() {
  static auto* const current = new CurrentObservation;
  return *current;
}

// A view, which gRPC too passes by value.
absl::string_view ViewOf(grpc::string_ref text) {  // NOLINT(performance-unnecessary-value-param)
  return absl::string_view(text.data(), text.size());
}

// Of gRPC's own: health, asked all the time, and reflection.
bool IsOwnService(absl::string_view method) { return absl::StartsWith(method, "/grpc."); }

trace::Span BeginSpan(const trace::Context& context, uint64_t parent, trace::Kind kind,
                      absl::string_view method, absl::Time now) {
  trace::Span span;
  span.context = context;
  span.parent = parent;
  span.kind = kind;
  span.begin = now;
  if (!context.sampled) return span;
  // `package.Service/Method`, as OpenTelemetry names spans of calls.
  method.remove_prefix(1);
  span.name = std::string(method);
  const size_t slash = method.rfind('/');
  span.attributes = {{"rpc.system", "grpc"}};
  if (slash != absl::string_view::npos) {
    span.attributes.emplace_back("rpc.service", method.substr(0, slash));
    span.attributes.emplace_back("rpc.method", method.substr(slash + 1));
  }
  return span;
}

void EndSpan(trace::Tracer& tracer, grpc::StatusCode code, trace::Span span) {
  if (!span.context.sampled) return;
  span.attributes.emplace_back("rpc.grpc.status_code", static_cast<int64_t>(code));
  span.failed = code != grpc::StatusCode::OK;
  // Not the message, which may say what was asked for.
  if (span.failed) span.error = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
  tracer.EndNow(std::move(span));
}

// One call that is answered. Lives as long as gRPC knows of the call; its hooks run one after
// another.
class ServerCall final : public Interceptor {
 public:
  ServerCall(Observation observed, ServerRpcInfo* info)
      : observed_(std::move(observed)), info_(info) {
    line_.method = info->method();
    // Of a call that the client gave up before it was answered.
    line_.code = grpc::StatusCode::CANCELLED;
    if (observed_.access_log != nullptr) line_.begin = observed_.access_log->Now();
  }
  ~ServerCall() override {
    if (span_.has_value()) EndSpan(*observed_.tracer, line_.code, *std::move(span_));
    if (observed_.access_log != nullptr) observed_.access_log->Record(line_);
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      if (observed_.access_log != nullptr) {
        line_.principal = PeerOf(*info_->server_context()).spiffe_id;
      }
      if (auto* metadata = methods->GetRecvInitialMetadata()) Begin(metadata);
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      line_.code = methods->GetSendStatus().error_code();
    }
    methods->Proceed();
  }

 private:
  void Begin(std::multimap<grpc::string_ref, grpc::string_ref>* metadata) {
    absl::optional<trace::Context> caller;
    const auto found = metadata->find(trace::kTraceparent);
    if (found != metadata->end()) caller = trace::Parse(ViewOf(found->second));
    if (observed_.tracer == nullptr) {
      if (caller.has_value()) line_.trace_id = trace::TraceIdOf(*caller);
      return;
    }
    trace::Tracer& tracer = *observed_.tracer;
    if (!caller.has_value() && !tracer.records()) return;
    const trace::Context own = caller ? tracer.NewChild(*caller) : tracer.NewTrace(false);
    span_ =
        BeginSpan(own, caller ? caller->span : 0, trace::Kind::kServer, line_.method, tracer.Now());
    line_.trace_id = trace::TraceIdOf(own);
    // The handler finds its own span there: see TraceOf.
    traceparent_ = trace::ToTraceparent(own);
    metadata->erase(trace::kTraceparent);
    metadata->emplace(trace::kTraceparent, traceparent_);
  }

  const Observation observed_;
  ServerRpcInfo* const info_;
  AccessLog::Call line_;
  absl::optional<trace::Span> span_;
  // What the call's metadata refers to.
  std::string traceparent_;
};

// One call that is made.
class ClientCall final : public Interceptor {
 public:
  ClientCall(std::shared_ptr<trace::Tracer> tracer, const char* method)
      : tracer_(std::move(tracer)) {
    const absl::optional<trace::Context> parent = trace::Scope::Current();
    if (!parent.has_value() && !tracer_->records()) return;
    const trace::Context own = parent ? tracer_->NewChild(*parent) : tracer_->NewTrace(true);
    span_ = BeginSpan(own, parent ? parent->span : 0, trace::Kind::kClient, method, tracer_->Now());
  }
  ~ClientCall() override {
    if (span_.has_value()) EndSpan(*tracer_, code_, *std::move(span_));
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (span_.has_value() &&
        methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      auto* metadata = methods->GetSendInitialMetadata();
      metadata->erase(trace::kTraceparent);
      metadata->emplace(trace::kTraceparent, trace::ToTraceparent(span_->context));
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_STATUS)) {
      const grpc::Status* status = methods->GetRecvStatus();
      if (status != nullptr) code_ = status->error_code();
      if (span_.has_value()) EndSpan(*tracer_, code_, *std::exchange(span_, absl::nullopt));
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<trace::Tracer> tracer_;
  absl::optional<trace::Span> span_;
  // Of a call that was given up.
  grpc::StatusCode code_ = grpc::StatusCode::CANCELLED;
};

class ServerCalls final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ServerCalls(Observation observed) : observed_(std::move(observed)) {}
  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    // Null: gRPC asks the next factory.
    if (IsOwnService(info->method())) return nullptr;
    return new ServerCall(observed_, info);
  }

 private:
  const Observation observed_;
};

class ClientCalls final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit ClientCalls(std::shared_ptr<trace::Tracer> tracer) : tracer_(std::move(tracer)) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    return new ClientCall(tracer_, info->method());
  }

 private:
  const std::shared_ptr<trace::Tracer> tracer_;
};

}  // namespace

void SetObservation(Observation observation) { Current().Set(std::move(observation)); }

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
MakeServerInterceptors() {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  Observation observed = Current().Get();
  // Without spans of its own a call shows its caller's, for which nothing needs to be done.
  if (observed.tracer != nullptr && !observed.tracer->records()) observed.tracer = nullptr;
  if (observed.access_log != nullptr || observed.tracer != nullptr) {
    factories.push_back(std::make_unique<ServerCalls>(std::move(observed)));
  }
  return factories;
}

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeClientInterceptors() {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  Observation observed = Current().Get();
  if (observed.tracer != nullptr) {
    factories.push_back(std::make_unique<ClientCalls>(std::move(observed.tracer)));
  }
  return factories;
}

absl::optional<trace::Context> TraceOf(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find(trace::kTraceparent);
  if (found == context.client_metadata().end()) return absl::nullopt;
  return trace::Parse(ViewOf(found->second));
}

}  // namespace capstan::rpc
