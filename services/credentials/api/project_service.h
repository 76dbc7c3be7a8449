#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_PROJECT_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_PROJECT_SERVICE_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/auth/access.h"
#include "libs/auth/policy.h"
#include "libs/random/random.h"
#include "libs/resource/page.h"
#include "libs/store/store.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "services/credentials/ports/event_sink.h"

namespace capstan::credentials {

// Projects and role bindings. Reads come from the store, so they show what is committed.
class ProjectServiceHandlers final : public v1::ProjectService::CallbackService {
 public:
  struct Deps {
    // All must outlive it.
    EventSink* sink = nullptr;
    store::Store* store = nullptr;
    auth::Access* access = nullptr;
    const auth::PolicyHolder* policy = nullptr;
    std::string trust_domain;
    // Secret, at least 16 bytes.
    std::string page_token_key;
    // Seeds the uids of Projects.
    uint64_t seed = 0;
  };
  explicit ProjectServiceHandlers(Deps deps)
      : deps_(std::move(deps)), page_tokens_(deps_.page_token_key), random_(deps_.seed) {}

  grpc::ServerUnaryReactor* CreateProject(grpc::CallbackServerContext* context,
                                          const v1::CreateProjectRequest* request,
                                          v1::Project* response) override;
  grpc::ServerUnaryReactor* GetProject(grpc::CallbackServerContext* context,
                                       const v1::GetProjectRequest* request,
                                       v1::Project* response) override;
  grpc::ServerUnaryReactor* ListProjects(grpc::CallbackServerContext* context,
                                         const v1::ListProjectsRequest* request,
                                         v1::ListProjectsResponse* response) override;
  grpc::ServerUnaryReactor* CreateRoleBinding(grpc::CallbackServerContext* context,
                                              const v1::CreateRoleBindingRequest* request,
                                              v1::RoleBinding* response) override;
  grpc::ServerUnaryReactor* DeleteRoleBinding(grpc::CallbackServerContext* context,
                                              const v1::DeleteRoleBindingRequest* request,
                                              google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* ListRoleBindings(grpc::CallbackServerContext* context,
                                             const v1::ListRoleBindingsRequest* request,
                                             v1::ListRoleBindingsResponse* response) override;

 private:
  std::string NewUid() {
    absl::MutexLock lock(&mutex_);
    return random_.Uuid4();
  }

  const Deps deps_;
  const resource::PageTokens page_tokens_;
  absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_PROJECT_SERVICE_H_
