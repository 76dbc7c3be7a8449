#include "integration/bench/bench_platform.h"

#include "absl/strings/str_cat.h"
#include "integration/access/raw_call.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/rpc/credentials.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "proto/capstan/type/v1/placement_grant.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::bench {
namespace {

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

// Of names and back-off, which no figure depends on.
constexpr uint64_t kSeed = 20;

}  // namespace

BenchPlatform::BenchPlatform(const Clock* clock, absl::string_view config)
    : clock_(clock), random_(kSeed), platform_(config) {}

absl::Status BenchPlatform::Start() {
  platform_.Up();
  cli::Invocation invocation;
  invocation.data_dir = platform_.data_dir();
  invocation.clock = clock_;
  invocation.random = &random_;
  CAPSTAN_ASSIGN_OR_RETURN(person_, cli::Platform::Open(invocation));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> BenchPlatform::Person(absl::string_view service) {
  return person_->Channel(service);
}

absl::StatusOr<Channels> BenchPlatform::People(absl::string_view service, int connections) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto identity, person_->Identity());
  return Dial(service, identity, connections);
}

absl::StatusOr<Channels> BenchPlatform::Nodes(absl::string_view service, int connections) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto identity, rpc::Identity::Load(absl::StrCat(
                                                    platform_.data_dir(), "/node_agent/identity")));
  return Dial(service, identity, connections);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> BenchPlatform::Service(absl::string_view caller,
                                                                      absl::string_view service) {
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto identity,
      rpc::Identity::Load(absl::StrCat(platform_.data_dir(), "/", caller, "/identity")));
  return Dial(service, identity, 1).front();
}

absl::StatusOr<std::string> BenchPlatform::Grant(const PlacedTask& task) const {
  CAPSTAN_ASSIGN_OR_RETURN(const auto scheduler, rpc::Identity::Load(absl::StrCat(
                                                     platform_.data_dir(), "/scheduler/identity")));
  CAPSTAN_ASSIGN_OR_RETURN(const auto node, rpc::Identity::Load(absl::StrCat(
                                                platform_.data_dir(), "/node_agent/identity")));
  const std::shared_ptr<const rpc::IdentitySnapshot> shown = node->Get();
  type::v1::Placement placement;
  placement.set_trust_domain(shown->id.trust_domain);
  placement.set_cluster(shown->id.cluster);
  placement.set_node(shown->id.node);
  placement.set_job(task.job);
  placement.set_job_uid(task.uid);
  placement.set_generation(1);
  placement.set_group("w");
  placement.set_index(task.index);
  placement.set_service_account(task.service_account);
  *placement.mutable_sign_time() = ToProto(clock_->Read().wall);
  return auth::TestGrant(scheduler->Get()->svid, placement);
}

Channels BenchPlatform::Dial(absl::string_view service,
                             const std::shared_ptr<const rpc::Identity>& identity,
                             int connections) const {
  Channels channels;
  const std::string address = person_->endpoints().parts().at(std::string(service)).address();
  for (int i = 0; i < connections; ++i) {
    channels.push_back(integration::DialAlone(
        address,
        rpc::MutualTlsChannelCredentials(identity, clock_, absl::StrCat("/svc/", service))));
  }
  return channels;
}

absl::Status BenchPlatform::MakeHeldQueue(const std::string& id) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, Person("scheduler"));
  const auto queues = scheduler::v1::QueueService::NewStub(channel);
  scheduler::v1::CreateQueueRequest request;
  request.set_queue_id(id);
  request.mutable_queue()->set_hold(true);
  request.set_request_id(random_.Uuid4());
  // As a command does it: a scheduler that is ready may still be loading what it has stored.
  const cli::CallTerms terms{clock_, &random_, absl::Seconds(30)};
  return cli::Call(queues.get(), &scheduler::v1::QueueService::Stub::CreateQueue, request, terms)
      .status();
}

}  // namespace capstan::bench
