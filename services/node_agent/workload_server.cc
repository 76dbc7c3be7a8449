#include "services/node_agent/workload_server.h"

#include <errno.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/rpc/or_else.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/api/workload_service.h"
#include "services/node_agent/core/shim_spec.h"

namespace capstan::node_agent {

using session::TaskId;

namespace {

constexpr char kConnect[] = "/SpiffeWorkloadAPI/Connect";
// Name of all strangers; Tasks' have a `/`.
constexpr char kStranger[] = "stranger";
constexpr absl::Duration kStrangersTime = absl::Seconds(10);
constexpr size_t kMaxConnections = 32;
constexpr size_t kMaxTasks = 4096;

}  // namespace

WorkloadServer::WorkloadServer(Deps deps) : deps_(deps) {
  if (deps_.audit != nullptr) denials_ = std::make_shared<auth::DenialLog>(deps_.audit);
}

absl::StatusOr<std::unique_ptr<WorkloadServer>> WorkloadServer::Start(const std::string& folder,
                                                                      Deps deps) {
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "mkdir", folder);
  }
  // Whatever the umask is.
  if (chmod(folder.c_str(), 0755) != 0) return ErrnoStatus(errno, "chmod", folder);
  std::unique_ptr<WorkloadServer> server(new WorkloadServer(deps));
  WorkloadServer* const self = server.get();
  // Only its use is bound to the strand.
  self->identities_ = std::make_unique<WorkloadIdentities>(WorkloadIdentities::Deps{
      .strand = deps.strand,
      .identity = deps.identity,
      .tokens = deps.tokens,
      .logger = deps.logger,
      .refused = [self](const std::string& principal, const std::string& act,
                        const std::string& resource,
                        const absl::Status& why) { self->Record(principal, act, resource, why); }});
  rpc::LocalServer::Options options;
  options.path = absl::StrCat(folder, "/", kWorkloadSocket);
  options.attest = [self](int fd) { return self->Attest(fd); };
  options.make = [self](const std::string& peer) { return self->MakeServices(peer); };
  options.refused = [self](const absl::Status&) { self->Count("refused"); };
  options.max_peers = kMaxTasks;
  options.max_connections = kMaxConnections;
  CAPSTAN_ASSIGN_OR_RETURN(self->local_, rpc::LocalServer::Start(std::move(options)));
  return server;
}

void WorkloadServer::Stop() {
  absl::Notification closed;
  deps_.strand->Post(rpc::OrElse(
      [&] {
        identities_->CloseAll();
        closed.Notify();
      },
      [&] { closed.Notify(); }));
  closed.WaitForNotification();
  if (local_ != nullptr) local_->Shutdown(absl::ZeroDuration());
  if (denials_ != nullptr) denials_->Flush(BootTime::InfiniteFuture());
}

void WorkloadServer::Serve(const KeepIdentity& order) {
  identities_->Serve(order);
  peers_.Add(order.order.id, order.cgroup, order.order.unix_uid);
}

void WorkloadServer::Renewed(const TaskId& id) { identities_->Renewed(id); }

void WorkloadServer::Close(const TaskId& id) {
  // First nobody new is taken for the Task, then its calls end, then its server.
  peers_.Remove(id);
  identities_->Close(id);
  local_->Drop(id.Path());
}

absl::StatusOr<std::string> WorkloadServer::Attest(int fd) {
  if (!open_) return absl::UnavailableError("The agent is being started.");
  CAPSTAN_ASSIGN_OR_RETURN(const TaskPeers::Attested peer, peers_.Attest(fd));
  if (peer.task.has_value()) {
    Count("task");
    return peer.task->Path();
  }
  Count(kStranger);
  Record(absl::StrCat("unix:", peer.process.uid), kConnect, absl::StrCat("pid ", peer.process.pid),
         WorkloadIdentities::NoIdentity());
  return std::string(kStranger);
}

absl::StatusOr<rpc::LocalServices> WorkloadServer::MakeServices(const std::string& peer) {
  absl::optional<TaskId> task;
  rpc::LocalServices services;
  if (peer == kStranger) {
    services.max_connection_age = kStrangersTime;
  } else {
    CAPSTAN_ASSIGN_OR_RETURN(task, TaskId::FromPath(peer));
  }
  auto service =
      std::make_shared<WorkloadService>(std::move(task), identities_.get(), deps_.strand);
  services.services = {rpc::Registered<::SpiffeWorkloadAPI>(service.get())};
  services.owner = std::move(service);
  return services;
}

void WorkloadServer::Record(const std::string& principal, const std::string& act,
                            const std::string& resource, const absl::Status& why) {
  if (denials_ == nullptr) return;
  audit::AuditEntry entry{.principal = principal,
                          .act = act,
                          .resource = resource,
                          .outcome_code = static_cast<int>(why.code()),
                          .message = std::string(why.message()),
                          .repeats = 0};
  // It is written to the disk: not on the strand, nor where connections are accepted.
  deps_.files->Post([denials = denials_, entry = std::move(entry),
                     now = deps_.strand->clock().Read().boot]() mutable {
    denials->Record(std::move(entry), now);
  });
}

void WorkloadServer::Count(const char* peer) {
  if (deps_.registry == nullptr) return;
  deps_.registry
      ->AddCounter("workload_connections_total", "Connections to the Workload API",
                   {{"peer", peer}})
      .Increment();
}

}  // namespace capstan::node_agent
