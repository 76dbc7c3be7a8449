#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_DENIAL_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_DENIAL_SERVICE_H_

#include <string>
#include <utility>

#include "libs/auth/access.h"
#include "libs/resource/page.h"
#include "libs/store/store.h"
#include "proto/capstan/credentials/v1/denial.grpc.pb.h"
#include "services/credentials/ports/event_sink.h"

namespace capstan::credentials {

// Shows the deny list and takes entries back.
class DenialServiceHandlers final : public v1::DenialService::CallbackService {
 public:
  struct Deps {
    // All must outlive it.
    EventSink* sink = nullptr;
    store::Store* store = nullptr;
    auth::Access* access = nullptr;
    std::string trust_domain;
    // Secret, at least 16 bytes.
    std::string page_token_key;
  };
  explicit DenialServiceHandlers(Deps deps)
      : deps_(std::move(deps)), page_tokens_(deps_.page_token_key) {}

  grpc::ServerUnaryReactor* ListDenials(grpc::CallbackServerContext* context,
                                        const v1::ListDenialsRequest* request,
                                        v1::ListDenialsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteDenial(grpc::CallbackServerContext* context,
                                         const v1::DeleteDenialRequest* request,
                                         google::protobuf::Empty* response) override;

 private:
  const Deps deps_;
  const resource::PageTokens page_tokens_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_DENIAL_SERVICE_H_
