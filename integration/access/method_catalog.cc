#include "integration/access/method_catalog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/capstan/clustermanager/v1/cluster.pb.h"
#include "proto/capstan/credentials/v1/access_service.pb.h"
#include "proto/capstan/credentials/v1/audit_head.pb.h"
#include "proto/capstan/credentials/v1/audit_service.pb.h"
#include "proto/capstan/credentials/v1/denial.pb.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/credentials/v1/token_service.pb.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "proto/capstan/dataloader/v1/peer.pb.h"
#include "proto/capstan/dataloader/v1/site.pb.h"
#include "proto/capstan/executor/v1/agent_session.pb.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "proto/capstan/scheduler/v1/executor_session.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.pb.h"
#include "proto/capstan/telemetry/v1/archive.pb.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::integration {
namespace {

// The files that hold services. What a server serves beside them is found by its reflection.
const google::protobuf::DescriptorPool& PoolWithEverything() {
  clustermanager::v1::Cluster::descriptor();
  credentials::v1::GetCallerAccessRequest::descriptor();
  credentials::v1::ReportAuditHeadRequest::descriptor();
  credentials::v1::GetAuditHeadRequest::descriptor();
  credentials::v1::Denial::descriptor();
  credentials::v1::Svid::descriptor();
  credentials::v1::Project::descriptor();
  credentials::v1::JwtSvid::descriptor();
  dataloader::v1::Bundle::descriptor();
  dataloader::v1::ContentRef::descriptor();
  dataloader::v1::Dataset::descriptor();
  dataloader::v1::Peer::descriptor();
  dataloader::v1::VersionSite::descriptor();
  scheduler::v1::CapacityOrder::descriptor();
  scheduler::v1::CreateJobRequest::descriptor();
  scheduler::v1::Node::descriptor();
  scheduler::v1::Queue::descriptor();
  scheduler::v1::SimulateChangesRequest::descriptor();
  telemetry::v1::Record::descriptor();
  telemetry::v1::Subscription::descriptor();
  telemetry::v1::TaskSession::descriptor();
  return *google::protobuf::DescriptorPool::generated_pool();
}

}  // namespace

bool Method::Admits(type::v1::AccessRule::Caller caller) const {
  return std::find(rule.callers().begin(), rule.callers().end(), caller) != rule.callers().end();
}

std::vector<Method> AllMethods() {
  std::vector<Method> methods;
  const auto& pool = PoolWithEverything();
  for (const char* file : {"clustermanager/v1/cluster",   "credentials/v1/access_service",
                           "credentials/v1/audit_head",   "credentials/v1/audit_service",
                           "credentials/v1/denial",       "credentials/v1/join_service",
                           "credentials/v1/project",      "credentials/v1/token_service",
                           "dataloader/v1/bundle",        "dataloader/v1/content",
                           "dataloader/v1/dataset",       "dataloader/v1/peer",
                           "dataloader/v1/site",          "executor/v1/agent_session",
                           "scheduler/v1/capacity_order", "scheduler/v1/executor_session",
                           "scheduler/v1/job_service",    "scheduler/v1/node",
                           "scheduler/v1/queue",          "scheduler/v1/simulation_service",
                           "telemetry/v1/archive",        "telemetry/v1/scrape_target",
                           "telemetry/v1/stream",         "telemetry/v1/subscription",
                           "telemetry/v1/task_session"}) {
    const auto* descriptor = pool.FindFileByName(absl::StrCat("proto/capstan/", file, ".proto"));
    for (int i = 0; descriptor != nullptr && i < descriptor->service_count(); ++i) {
      const auto* service = descriptor->service(i);
      for (int k = 0; k < service->method_count(); ++k) {
        const auto* method = service->method(k);
        methods.push_back({absl::StrCat("/", service->full_name(), "/", method->name()),
                           service->full_name(), method,
                           method->options().GetExtension(type::v1::access)});
      }
    }
  }
  std::sort(methods.begin(), methods.end(),
            [](const Method& a, const Method& b) { return a.path < b.path; });
  return methods;
}

std::unique_ptr<google::protobuf::Message> RequestOf(const Method& method,
                                                     absl::string_view resource) {
  const auto* type = method.descriptor->input_type();
  std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  if (resource.empty() || method.rule.resource_field().empty()) return request;
  google::protobuf::Message* message = request.get();
  const std::vector<std::string> path = absl::StrSplit(method.rule.resource_field(), '.');
  for (size_t i = 0; i < path.size(); ++i) {
    const auto* field = message->GetDescriptor()->FindFieldByName(path[i]);
    if (field == nullptr) return request;
    if (i + 1 < path.size()) {
      message = message->GetReflection()->MutableMessage(message, field);
    } else {
      message->GetReflection()->SetString(message, field, std::string(resource));
    }
  }
  return request;
}

}  // namespace capstan::integration
