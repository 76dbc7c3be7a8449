#include "libs/kube/client/review_calls.h"

#include <utility>

#include "libs/kube/client/request.h"
#include "libs/kube/client/retry.h"
#include "libs/kube/objects/encoding.h"

namespace capstan::kube {
namespace {

// Nothing is stored, so each may be asked again.
template <typename T>
std::unique_ptr<PendingCall> Ask(Client* client, const TypedResource<T>& resource,
                                 const T& question, DoneWith<ObjectPtr<T>> done) {
  auto codec = MakeCodec<T>(resource.type());
  ApiRequest request = CreateRequest(resource.type(), "", codec->Write(question), WriteOptions(),
                                     Encoding::kProtobuf);
  request.repeat = Repeat::kHarmless;
  return StartObject<T>(client, std::move(request), std::move(codec), std::move(done));
}

}  // namespace

std::unique_ptr<PendingCall> ReviewToken(Client* client, const std::string& token,
                                         const std::vector<std::string>& audiences,
                                         DoneWith<ObjectPtr<authentication_v1::TokenReview>> done) {
  authentication_v1::TokenReview review;
  review.mutable_spec()->set_token(token);
  for (const std::string& audience : audiences) review.mutable_spec()->add_audiences(audience);
  return Ask(client, kTokenReviews, review, std::move(done));
}

std::unique_ptr<PendingCall> ReviewAccess(
    Client* client, const authorization_v1::SubjectAccessReviewSpec& spec,
    DoneWith<ObjectPtr<authorization_v1::SubjectAccessReview>> done) {
  authorization_v1::SubjectAccessReview review;
  *review.mutable_spec() = spec;
  return Ask(client, kSubjectAccessReviews, review, std::move(done));
}

std::unique_ptr<PendingCall> ReviewOwnAccess(
    Client* client, const authorization_v1::SelfSubjectAccessReviewSpec& spec,
    DoneWith<ObjectPtr<authorization_v1::SelfSubjectAccessReview>> done) {
  authorization_v1::SelfSubjectAccessReview review;
  *review.mutable_spec() = spec;
  return Ask(client, kSelfSubjectAccessReviews, review, std::move(done));
}

std::unique_ptr<PendingCall> RequestToken(
    Client* client, absl::string_view ns, absl::string_view service_account,
    const authentication_v1::TokenRequestSpec& spec,
    DoneWith<ObjectPtr<authentication_v1::TokenRequest>> done) {
  auto codec = MakeCodec<authentication_v1::TokenRequest>(kTokenRequests.type());
  authentication_v1::TokenRequest body;
  *body.mutable_spec() = spec;
  ApiRequest request =
      CreateSubresourceRequest(kServiceAccounts.type(), ns, service_account, "token",
                               codec->Write(body), WriteOptions(), Encoding::kProtobuf);
  // One token more harms nobody.
  request.repeat = Repeat::kHarmless;
  return StartObject<authentication_v1::TokenRequest>(client, std::move(request), std::move(codec),
                                                      std::move(done));
}

}  // namespace capstan::kube
