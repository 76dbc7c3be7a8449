#include "integration/bench/rpc_bench.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "integration/access/raw_call.h"
#include "integration/bench/closed_loop.h"
#include "integration/bench/figure.h"
#include "libs/audit/audit_log.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/log/log.h"
#include "libs/log/spdlog_sink.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/access_log.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/observation.h"
#include "libs/rpc/server.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/unary.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/status_macros.h"
#include "libs/trace/tracing.h"
#include "proto/capstan/config/v1/observation.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"

namespace capstan::bench {
namespace {

namespace pb = ::capstan::scheduler::v1;

constexpr char kMethod[] = "/capstan.scheduler.v1.JobService/GetJob";
constexpr char kPerson[] = "1000";
constexpr char kName[] = "projects/p/jobs/j";
constexpr int kClients = 64;

// What both servers do once a call has come in.
void Answer(const pb::GetJobRequest& request, pb::Job* response) {
  response->set_name(request.name());
  response->set_state(pb::Job::STATE_RUNNING);
}

class BareService final : public pb::JobService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const pb::GetJobRequest* request, pb::Job* response) override {
    Answer(*request, response);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class GuardedService final : public pb::JobService::CallbackService {
 public:
  explicit GuardedService(auth::Access* access) : access_(access) {}
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const pb::GetJobRequest* request, pb::Job* response) override {
    return rpc::HandleUnary(context, access_, kMethod, request, response, rpc::NothingToValidate(),
                            [](const rpc::Call&, const pb::GetJobRequest& request,
                               pb::Job* response, rpc::Finish finish) {
                              Answer(request, response);
                              finish(absl::OkStatus());
                            });
  }

 private:
  auth::Access* const access_;
};

// Both servers, and all that a process of a platform has around its own, as libs/process puts it
// together.
class Servers {
 public:
  explicit Servers(const Clock* clock)
      : clock_(clock),
        server_(authority_.MakeIdentity("/svc/scheduler", folder_.path() + "/server")),
        person_(authority_.MakeIdentity(absl::StrCat("/person/", kPerson),
                                        folder_.path() + "/person")) {}
  ~Servers() {
    guarded_.reset();
    if (bare_ != nullptr) bare_->Shutdown();
    rpc::SetObservation({});
    if (access_log_ != nullptr) access_log_->Close();
  }

  absl::Status Start() {
    CAPSTAN_RETURN_IF_ERROR(StartBare());
    CAPSTAN_ASSIGN_OR_RETURN(sink_, log::MakeFileSink({.path = folder_.path() + "/scheduler.log"}));
    logger_ = std::make_unique<log::Logger>("scheduler", clock_, sink_.get());
    // As a platform's access_log with CALLS_ALL; a line for each of these calls.
    access_log_ =
        std::make_shared<rpc::AccessLog>(rpc::AccessLog::Options{.max_lines_per_second = 10'000},
                                         clock_, logger_->With("access"), &registry_);
    CAPSTAN_ASSIGN_OR_RETURN(
        tracing_,
        trace::Tracing::Open(config::v1::Traces(), {.clock = clock_, .metrics = &registry_}));
    rpc::SetObservation({.access_log = access_log_, .tracer = tracing_->tracer()});
    CAPSTAN_ASSIGN_OR_RETURN(
        audit_, audit::AuditLog::Open(folder_.path() + "/audit.chain", "scheduler", clock_));
    credentials::v1::PolicySnapshot snapshot;
    snapshot.set_valid_seconds(3600);
    snapshot.add_projects()->set_name("projects/p");
    credentials::v1::RoleBinding& binding = *snapshot.add_role_bindings();
    binding.set_name("projects/p/roleBindings/b");
    binding.set_member(absl::StrCat("person/", kPerson));
    binding.set_role(credentials::v1::RoleBinding::ROLE_RESEARCHER);
    policy_.Set(std::make_shared<const auth::Policy>(snapshot, clock_->Read().boot));
    access_ = std::make_unique<auth::PolicyAccess>(
        authority_.trust_domain(), &policy_, clock_, audit_.get(),
        [calls = registry_.AddCounter("calls_refused_total", "Calls refused")]() mutable {
          calls.Increment();
        });
    guarded_service_ = std::make_unique<GuardedService>(access_.get());
    rpc::ServerConfig config;
    config.credentials = rpc::MutualTlsServerCredentials(server_, clock_);
    config.services = {rpc::Registered<pb::JobService>(guarded_service_.get())};
    CAPSTAN_ASSIGN_OR_RETURN(guarded_, rpc::Server::Start(config));
    return absl::OkStatus();
  }

  // A connection of its own.
  std::unique_ptr<pb::JobService::Stub> Dial(bool guarded) const {
    const int port = guarded ? guarded_->port() : bare_port_;
    return pb::JobService::NewStub(integration::DialAlone(
        absl::StrCat("127.0.0.1:", port),
        rpc::MutualTlsChannelCredentials(person_, clock_, "/svc/scheduler")));
  }

 private:
  absl::Status StartBare() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", rpc::MutualTlsServerCredentials(server_, clock_),
                             &bare_port_);
    builder.RegisterService(&bare_service_);
    bare_ = builder.BuildAndStart();
    if (bare_ == nullptr || bare_port_ == 0) return absl::UnavailableError("gRPC does not listen");
    return absl::OkStatus();
  }

  const Clock* const clock_;
  TemporaryFolder folder_;
  const rpc::TestAuthority authority_;
  const std::shared_ptr<rpc::Identity> server_;
  const std::shared_ptr<rpc::Identity> person_;
  metrics::Registry registry_{"scheduler"};
  std::unique_ptr<log::Sink> sink_;
  std::unique_ptr<log::Logger> logger_;
  std::shared_ptr<rpc::AccessLog> access_log_;
  std::unique_ptr<trace::Tracing> tracing_;
  std::unique_ptr<audit::AuditLog> audit_;
  auth::PolicyHolder policy_;
  std::unique_ptr<auth::PolicyAccess> access_;
  BareService bare_service_;
  std::unique_ptr<GuardedService> guarded_service_;
  int bare_port_ = 0;
  std::unique_ptr<grpc::Server> bare_;
  std::unique_ptr<rpc::Server> guarded_;
};

// The median of so many calls, one after another.
absl::StatusOr<double> MedianMicroseconds(const Clock* clock, pb::JobService::Stub& stub,
                                          int calls) {
  pb::GetJobRequest request;
  request.set_name(kName);
  std::vector<double> taken;
  for (int i = 0; i < calls; ++i) {
    const Stopwatch watch(clock);
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(10));
    pb::Job response;
    CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus(stub.GetJob(&context, request, &response)));
    taken.push_back(absl::ToDoubleMicroseconds(watch.Elapsed()));
  }
  return Median(std::move(taken));
}

absl::StatusOr<double> CallsPerSecond(const Bench& bench, const Servers& servers, bool guarded) {
  std::vector<std::unique_ptr<pb::JobService::Stub>> stubs;
  for (int i = 0; i < kClients; ++i) stubs.push_back(servers.Dial(guarded));
  ClosedLoop<pb::GetJobRequest, pb::Job> loop(
      bench.clock,
      [&](int client, grpc::ClientContext* context, const pb::GetJobRequest* request,
          pb::Job* response, std::function<void(grpc::Status)> done) {
        stubs[static_cast<size_t>(client)]->async()->GetJob(context, request, response,
                                                            std::move(done));
      },
      [](int, pb::GetJobRequest* request) { request->set_name(kName); });
  // Handshakes are none of it.
  CAPSTAN_RETURN_IF_ERROR(loop.Run(kClients, absl::Milliseconds(100)).status());
  CAPSTAN_ASSIGN_OR_RETURN(const LoopResult result,
                           loop.Run(kClients, bench.Time(absl::Seconds(1))));
  return result.PerSecond();
}

}  // namespace

absl::Status BenchRpc(const Bench& bench) {
  Servers servers(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(servers.Start());
  const auto bare = servers.Dial(false);
  const auto guarded = servers.Dial(true);
  const int calls = bench.Count(500, 50);
  for (const auto* stub : {&bare, &guarded}) {
    CAPSTAN_RETURN_IF_ERROR(MedianMicroseconds(bench.clock, **stub, calls).status());
  }
  std::vector<double> bare_p50;
  std::vector<double> guarded_p50;
  std::vector<double> ratio;
  for (int run = 0; run < bench.Runs(31); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(const double without, MedianMicroseconds(bench.clock, *bare, calls));
    CAPSTAN_ASSIGN_OR_RETURN(const double with, MedianMicroseconds(bench.clock, *guarded, calls));
    bare_p50.push_back(without);
    guarded_p50.push_back(with);
    ratio.push_back(with / without);
  }
  const std::string conditions =
      absl::StrCat("GetJob by a person, ", calls,
                   " calls a run one after another, in turns with a bare gRPC "
                   "server with the same certificates; client and both servers in one process");
  const double limit = Median(bare_p50);
  bench.report({.name = "rpc_p50_ratio_to_bare_grpc",
                .values = ratio,
                .unit = "1",
                .limit = 1,
                .limit_name = "the bare server itself",
                .bar = 1.5,
                .conditions = conditions});
  bench.report({.name = "rpc_p50_us",
                .values = guarded_p50,
                .unit = "us",
                .limit = limit,
                .limit_name = "p50 of bare gRPC with mTLS, us",
                .conditions = conditions});

  std::vector<double> bare_rate;
  std::vector<double> guarded_rate;
  for (int run = 0; run < bench.Runs(5); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(const double without, CallsPerSecond(bench, servers, false));
    CAPSTAN_ASSIGN_OR_RETURN(const double with, CallsPerSecond(bench, servers, true));
    bare_rate.push_back(without);
    guarded_rate.push_back(with);
  }
  bench.report({.name = "rpc_per_s.clients64",
                .values = guarded_rate,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = Median(bare_rate),
                .limit_name = "bare gRPC with mTLS, 1/s",
                .conditions = "GetJob by a person over 64 connections, in turns with a bare gRPC "
                              "server; client and both servers in one process"});
  return absl::OkStatus();
}

}  // namespace capstan::bench
