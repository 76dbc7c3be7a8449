// Questions about identity and access that the server answers. On the client's strand.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_REVIEW_CALLS_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_REVIEW_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {

// Who bears the token: `status.authenticated`, which must be looked at, and `status.user`. With
// audiences, only a token for one of them counts; `status.audiences` must then be looked at too: a
// server that does not know audiences leaves it empty.
[[nodiscard]] std::unique_ptr<PendingCall> ReviewToken(
    Client* client, const std::string& token, const std::vector<std::string>& audiences,
    DoneWith<ObjectPtr<authentication_v1::TokenReview>> done);

// Whether somebody may do something: `status.allowed`.
[[nodiscard]] std::unique_ptr<PendingCall> ReviewAccess(
    Client* client, const authorization_v1::SubjectAccessReviewSpec& spec,
    DoneWith<ObjectPtr<authorization_v1::SubjectAccessReview>> done);

// Whether this client may.
[[nodiscard]] std::unique_ptr<PendingCall> ReviewOwnAccess(
    Client* client, const authorization_v1::SelfSubjectAccessReviewSpec& spec,
    DoneWith<ObjectPtr<authorization_v1::SelfSubjectAccessReview>> done);

// A token of the service account: `status.token`, which is secret, and when it expires.
[[nodiscard]] std::unique_ptr<PendingCall> RequestToken(
    Client* client, absl::string_view ns, absl::string_view service_account,
    const authentication_v1::TokenRequestSpec& spec,
    DoneWith<ObjectPtr<authentication_v1::TokenRequest>> done);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_REVIEW_CALLS_H_
