// What Nodes and executors may do: what is their own, and for Tasks that were placed on them.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "integration/access/access_fixture.h"
#include "integration/access/method_catalog.h"
#include "integration/access/raw_call.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/session/placement.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"

namespace capstan::integration {
namespace {

using grpc::StatusCode;
using type::v1::AccessRule;

using NodeAccessTest = AccessFixture;

TEST_F(NodeAccessTest, NodesAndExecutorsTouchOnlyTheirOwn) {
  const std::string uid = platform_->Get("serve").uid();
  const std::string task = absl::StrCat(
      "job: 'projects/default/jobs/serve' job_uid: '", uid,
      "' generation: 1 group: 'w' service_account: 'projects/default/serviceAccounts/default'");
  const std::string content = absl::StrCat(
      "content { resource: 'projects/default/datasets/d/versions/v1' manifest_digest: 'sha256:",
      std::string(64, '0'), "' holder: 'jobs/", uid, "/1' }");
  // What the handlers find out by the certificate.
  const std::map<std::string, std::string> refused = {
      {"executor.v1.AgentSession/Connect", ""},
      {"credentials.v1.TokenService/IssueTaskJwt", task + " audiences: 'a' subject: SUBJECT_TASK"},
      {"telemetry.v1.TaskSessionService/AttachTaskSession", "attach: 'no-such-session'"},
      {"dataloader.v1.ContentService/ReadManifest", content},
      {"dataloader.v1.ContentService/ReadContent", content},
      {"dataloader.v1.PeerService/FindPeers", content + " address: '127.0.0.1:1'"},
      {"dataloader.v1.PeerService/CheckReader", content + " reader: 'clusters/local/nodes/node-0'"},
      {"dataloader.v1.PeerService/ReadChunkDigests", content + " chunk_count: 1"},
  };
  // About the caller itself, by its certificate.
  const std::set<std::string> own = {
      "scheduler.v1.ExecutorSession/Connect",
      "credentials.v1.IdentityService/RenewSvid",
      "credentials.v1.IdentityService/GetTrustBundle",
      "credentials.v1.TokenService/GetJwtBundle",
      "credentials.v1.PolicyService/WatchPolicy",
      "credentials.v1.AuditHeadService/ReportAuditHead",
      "telemetry.v1.TaskSessionService/WatchTaskSessions",
      "telemetry.v1.ScrapeTargetService/ReportScrapeTarget",
      "dataloader.v1.PeerService/AnnounceCopies",
      "dataloader.v1.DataLoadService/ReleasePins",
      "dataloader.v1.PeerContentService/ReadPeerContent",
  };
  const auto node = Identity("/node/elsewhere/n1");
  for (const Method& method : AllMethods()) {
    if (!method.Admits(AccessRule::CALLER_NODE) && !method.Admits(AccessRule::CALLER_EXECUTOR)) {
      continue;
    }
    const std::string name = method.path.substr(std::string("/capstan.").size());
    const auto row = refused.find(name);
    EXPECT_EQ((row != refused.end()) + own.count(name) + method.rule.placement(), 1u)
        << name << " lets Nodes or executors in and is not in the table";
    if (row == refused.end()) continue;
    const auto request = RequestOf(method);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(row->second, request.get())) << name;
    const auto* field = request->GetDescriptor()->FindFieldByName("certificate_request");
    if (field != nullptr) {
      request->GetReflection()->SetString(
          request.get(), field,
          rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value());
    }
    for (const Part& part : parts()) {
      const bool serves = std::any_of(part.methods.begin(), part.methods.end(),
                                      [&](const Method& m) { return m.path == method.path; });
      if (!serves) continue;
      const grpc::Status status = RawCall(DialAlone(part.address, CredentialsOf(node, part.name)),
                                          method.path, *request, kPatience);
      EXPECT_TRUE(IsRefusal(status) || status.error_code() == StatusCode::NOT_FOUND)
          << name << ": " << status.error_code() << " " << status.error_message();
    }
  }
}

// What a Node may do for a Task it may do with the scheduler's grant for that Task, on that Node,
// and about what the grant names. Every method whose rule asks for a grant is tried, with a grant
// that is right and with all that are not.
TEST_F(NodeAccessTest, NodesActForTasksThatWerePlacedOnThem) {
  const std::string uid = platform_->Get("serve").uid();
  const std::string holder = absl::StrCat(uid, "/1");
  const std::string hex(64, 'a');
  type::v1::Placement placed;
  placed.set_trust_domain(authority_->trust_domain());
  placed.set_cluster("elsewhere");
  placed.set_node("n1");
  placed.set_job("projects/default/jobs/serve");
  placed.set_job_uid(uid);
  placed.set_generation(1);
  placed.set_group("w");
  placed.set_service_account("projects/default/serviceAccounts/default");
  placed.set_bundle(absl::StrCat("projects/default/bundles/", hex));
  placed.add_versions(session::VersionDigest("projects/default/datasets/d/versions/ab01"));
  placed.set_output("projects/default/jobs/serve/output");
  *placed.mutable_sign_time() = ToProto(Now());
  const std::string output =
      absl::StrCat("name: 'projects/default/jobs/serve/output' job_uid: '", uid, "' generation: 1");
  const std::string commit = absl::StrCat(output, " checkpoint_step: 1");
  const std::map<std::string, std::string> requests = {
      {"credentials.v1.IdentityService/IssueTaskSvid",
       absl::StrCat("job: 'projects/default/jobs/serve' job_uid: '", uid,
                    "' generation: 1 group: 'w' "
                    "service_account: 'projects/default/serviceAccounts/default'")},
      {"dataloader.v1.BundleService/PinBundle",
       absl::StrCat("name: 'projects/default/bundles/", hex, "' holder: '", holder, "'")},
      {"dataloader.v1.DataLoadService/PinVersion",
       absl::StrCat("version: 'projects/default/datasets/d/versions/ab01' holder: '", holder, "'")},
      {"dataloader.v1.OutputService/OpenOutput", output},
      {"dataloader.v1.OutputService/CommitOutput", commit + " staging_directory: '/nowhere'"},
      {"dataloader.v1.ContentService/UploadOutput", absl::StrCat("header { ", commit, " }")},
      {"telemetry.v1.StreamService/AppendRecords",
       "stream: 'projects/default/jobs/serve/streams/log' "
       "records { key: 'k' kind: 'log' producer: 'p' producer_sequence: 1 }"},
  };
  const auto changed = [&](auto change) {
    type::v1::Placement other = placed;
    change(&other);
    return other;
  };
  const auto svid = [](absl::string_view path, absl::Duration from, absl::Duration until) {
    return authority_->Issue(Uri(path), Now() + from, Now() + until);
  };
  const rpc::Svid scheduler = svid("/svc/scheduler", -absl::Hours(1), absl::Hours(1));
  const rpc::Svid stale = svid("/svc/scheduler", -absl::Hours(2), -absl::Hours(1));
  const rpc::Svid loader = svid("/svc/data_loader", -absl::Hours(1), absl::Hours(1));
  const std::string right = auth::TestGrant(scheduler, placed);
  std::string flipped = right;
  flipped[flipped.size() / 2] ^= 1;
  const auto another_job = changed([](auto* p) {
    p->set_job("projects/default/jobs/else");
    p->set_job_uid("6e0f7d3c-0000-4000-8000-000000000001");
    p->clear_bundle();
    p->clear_versions();
    p->clear_output();
  });
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"no grant", ""},
      {"nonsense", "grant"},
      {"a changed one", flipped},
      {"another service's", auth::TestGrant(loader, placed)},
      {"one of a certificate that had expired", auth::TestGrant(stale, placed)},
      {"another trust domain's",
       auth::TestGrant(rpc::TestAuthority().Issue("/svc/scheduler"), placed)},
      {"another Node's", auth::TestGrant(scheduler, changed([](auto* p) { p->set_node("n2"); }))},
      {"another Cluster's",
       auth::TestGrant(scheduler, changed([](auto* p) { p->set_cluster("local"); }))},
      {"another Job's", auth::TestGrant(scheduler, another_job)},
  };
  const auto node = Identity("/node/elsewhere/n1");
  size_t seen = 0;
  for (const Part& part : parts()) {
    const auto channel = DialAlone(part.address, CredentialsOf(node, part.name));
    for (const Method& method : part.methods) {
      if (!method.rule.placement()) continue;
      ++seen;
      const auto row = requests.find(method.path.substr(std::string("/capstan.").size()));
      ASSERT_NE(row, requests.end()) << method.path << " has no request here";
      const auto request = RequestOf(method);
      ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(row->second, request.get()));
      if (const auto* field = request->GetDescriptor()->FindFieldByName("certificate_request")) {
        request->GetReflection()->SetString(
            request.get(), field,
            rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value());
      }
      for (const auto& [what, grant] : wrong) {
        const grpc::Status status =
            RawCall(channel, method.path, *request, kPatience, {.grant = grant});
        EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED)
            << method.path << " with " << what << ": " << status.error_message();
        EXPECT_EQ(status::Reason(rpc::FromGrpcStatus(status)), "NO_PLACEMENT") << method.path;
      }
      const grpc::Status status =
          RawCall(channel, method.path, *request, kPatience, {.grant = right});
      EXPECT_NE(status::Reason(rpc::FromGrpcStatus(status)), "NO_PLACEMENT")
          << method.path << ": " << status.error_message();
    }
  }
  EXPECT_EQ(seen, requests.size());
}

}  // namespace
}  // namespace capstan::integration
