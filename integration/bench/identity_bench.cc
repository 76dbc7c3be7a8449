#include "integration/bench/identity_bench.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "integration/bench/bench_platform.h"
#include "integration/bench/closed_loop.h"
#include "integration/bench/figure.h"
#include "integration/bench/machine_limits.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/x509.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/token_service.grpc.pb.h"

namespace capstan::bench {
namespace {

namespace pb = ::capstan::credentials::v1;

constexpr int kManyClients = 64;
constexpr char kJob[] = "projects/default/jobs/bench";
constexpr char kAccount[] = "projects/default/serviceAccounts/default";
constexpr char kUid[] = "8b3c5b7e-0f4a-4d7e-9c43-0123456789ab";

template <typename Request>
void NameTask(int index, Request* request) {
  request->set_job(kJob);
  request->set_service_account(kAccount);
  request->set_job_uid(kUid);
  request->set_generation(1);
  request->set_group("w");
  request->set_index(index);
}

struct Rates {
  std::vector<double> one;
  std::vector<double> many;
};

template <typename Request, typename Response>
absl::Status Measure(const Bench& bench, ClosedLoop<Request, Response>& loop, Rates* rates) {
  CAPSTAN_ASSIGN_OR_RETURN(const LoopResult one, loop.Run(1, bench.Time(absl::Seconds(1))));
  rates->one.push_back(one.PerSecond());
  CAPSTAN_ASSIGN_OR_RETURN(const LoopResult many,
                           loop.Run(kManyClients, bench.Time(absl::Seconds(2))));
  rates->many.push_back(many.PerSecond());
  return absl::OkStatus();
}

void Report(const Bench& bench, const std::string& name, const Rates& rates, double syncs,
            double signatures, const std::string& conditions) {
  bench.report({.name = absl::StrCat(name, ".clients1"),
                .values = rates.one,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = syncs,
                .limit_name = "fdatasync of 4 KiB, 1/s",
                .conditions = conditions});
  bench.report({.name = absl::StrCat(name, ".clients64"),
                .values = rates.many,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = signatures,
                .limit_name = "P-256 signatures by OpenSSL on one core, 1/s",
                .conditions = conditions});
}

}  // namespace

absl::Status BenchIdentities(const Bench& bench) {
  BenchPlatform platform(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  CAPSTAN_ASSIGN_OR_RETURN(const auto channels, platform.Nodes("credentials", kManyClients));
  CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::Generate());
  CAPSTAN_ASSIGN_OR_RETURN(const std::string certificate_request, rpc::MakeCertificateRequest(key));
  std::vector<std::unique_ptr<pb::IdentityService::Stub>> identities;
  std::vector<std::unique_ptr<pb::TokenService::Stub>> tokens;
  for (const auto& channel : channels) {
    identities.push_back(pb::IdentityService::NewStub(channel));
    tokens.push_back(pb::TokenService::NewStub(channel));
  }
  std::vector<std::string> grants;
  for (int i = 0; i < kManyClients; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(
        std::string grant,
        platform.Grant({.job = kJob, .uid = kUid, .index = i, .service_account = kAccount}));
    grants.push_back(std::move(grant));
  }
  // Each client is one Task, under whose key it asks again and again.
  ClosedLoop<pb::IssueTaskSvidRequest, pb::Svid> svids(
      bench.clock,
      [&](int client, grpc::ClientContext* context, const pb::IssueTaskSvidRequest* request,
          pb::Svid* response, std::function<void(grpc::Status)> done) {
        context->AddMetadata(rpc::kPlacementGrant, grants[static_cast<size_t>(client)]);
        identities[static_cast<size_t>(client)]->async()->IssueTaskSvid(context, request, response,
                                                                        std::move(done));
      },
      [&](int client, pb::IssueTaskSvidRequest* request) {
        NameTask(client, request);
        request->set_certificate_request(certificate_request);
      });
  ClosedLoop<pb::IssueTaskJwtRequest, pb::JwtSvid> jwts(
      bench.clock,
      [&](int client, grpc::ClientContext* context, const pb::IssueTaskJwtRequest* request,
          pb::JwtSvid* response, std::function<void(grpc::Status)> done) {
        tokens[static_cast<size_t>(client)]->async()->IssueTaskJwt(context, request, response,
                                                                   std::move(done));
      },
      [](int client, pb::IssueTaskJwtRequest* request) {
        NameTask(client, request);
        if (request->audiences().empty()) request->add_audiences("bench");
      });
  // Connects, and gives each Task the SVID without which it gets no token.
  CAPSTAN_RETURN_IF_ERROR(svids.Run(kManyClients, absl::Milliseconds(100)).status());
  // The signing key is made beside everything else.
  if (!AskUntil(bench.clock, absl::Seconds(60),
                [&] { return jwts.Run(1, absl::ZeroDuration()).ok(); })) {
    return jwts.Run(1, absl::ZeroDuration()).status();
  }

  std::vector<double> signatures;
  std::vector<double> syncs;
  Rates svid_rates;
  Rates jwt_rates;
  for (int run = 0; run < bench.Runs(5); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(const double signs,
                             SignaturesPerSecond(bench.clock, bench.Time(absl::Seconds(1))));
    signatures.push_back(signs);
    CAPSTAN_ASSIGN_OR_RETURN(
        const double synced,
        SyncsPerSecond(bench.clock, platform.platform().folder(), bench.Time(absl::Seconds(1))));
    syncs.push_back(synced);
    CAPSTAN_RETURN_IF_ERROR(Measure(bench, svids, &svid_rates));
    CAPSTAN_RETURN_IF_ERROR(Measure(bench, jwts, &jwt_rates));
  }
  const std::string conditions = absl::StrCat(
      "asked by a Node over mTLS, audited and durable before the answer; clients and "
      "all parts on ",
      Cores(), " cores");
  Report(bench, "svid_issue_per_s", svid_rates, Median(syncs), Median(signatures),
         absl::StrCat("IssueTaskSvid ", conditions));
  Report(bench, "jwt_issue_per_s", jwt_rates, Median(syncs), Median(signatures),
         absl::StrCat("IssueTaskJwt with ES256 ", conditions));
  return absl::OkStatus();
}

}  // namespace capstan::bench
