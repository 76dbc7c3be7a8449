// Names of the acts in the audit chain: the full method, where there is one.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_ACT_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_ACT_H_

namespace capstan::credentials::act {

inline constexpr char kFirstRun[] = "first-run";
inline constexpr char kIssueOwnSvid[] = "issue-own-svid";
inline constexpr char kJoin[] = "/capstan.credentials.v1.JoinService/Join";
inline constexpr char kCreateJoinToken[] =
    "/capstan.credentials.v1.JoinTokenService/CreateJoinToken";
inline constexpr char kRenewSvid[] = "/capstan.credentials.v1.IdentityService/RenewSvid";
inline constexpr char kIssueTaskSvid[] = "/capstan.credentials.v1.IdentityService/IssueTaskSvid";
inline constexpr char kIssueTaskJwt[] = "/capstan.credentials.v1.TokenService/IssueTaskJwt";
inline constexpr char kMakeJwtKey[] = "make-jwt-key";
inline constexpr char kIssuePersonSvid[] = "/capstan.credentials.v1.PersonService/IssuePersonSvid";
inline constexpr char kCreateProject[] = "/capstan.credentials.v1.ProjectService/CreateProject";
inline constexpr char kCreateRoleBinding[] =
    "/capstan.credentials.v1.ProjectService/CreateRoleBinding";
inline constexpr char kDeleteRoleBinding[] =
    "/capstan.credentials.v1.ProjectService/DeleteRoleBinding";
inline constexpr char kDenyIdentity[] = "/capstan.credentials.v1.PolicyService/DenyIdentity";

inline constexpr char kDeleteDenial[] = "/capstan.credentials.v1.DenialService/DeleteDenial";

}  // namespace capstan::credentials::act

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_ACT_H_
