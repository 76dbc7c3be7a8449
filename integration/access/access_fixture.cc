#include "integration/access/access_fixture.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "integration/monitoring/http_request.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

constexpr char kServe[] =
    "job_id: serve\n"
    "spec:\n"
    "  output: true\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/sleep, '3600']\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

// What every gRPC server of ours has beside its services, for who got through the handshake.
bool IsGrpcsOwn(absl::string_view service) { return absl::StartsWith(service, "grpc."); }

}  // namespace

SystemClock AccessFixture::clock_;
TestPlatform* AccessFixture::platform_ = nullptr;
credentials::StoredAuthority* AccessFixture::authority_ = nullptr;
testenv::LoopbackPort* AccessFixture::openid_port_ = nullptr;
cli::v1::Endpoints* AccessFixture::endpoints_ = nullptr;

void AccessFixture::SetUpTestSuite() {
  if (TestPlatform::Unable().has_value()) return;
  openid_port_ = new testenv::LoopbackPort(testenv::LoopbackPort::Take().value());
  platform_ = new TestPlatform(
      absl::StrCat("monitoring: {access_log: {calls: CALLS_ALL, max_lines_per_second: 10000}}\n"
                   "ended_jobs: {in_scheduler: {keep_for: 10s}}\n"
                   "credentials: {issuer: 'https://",
                   openid_address(), "', openid_listen: '", openid_address(), "'}\n"));
  platform_->Up();
  // The CA's key can be read once nobody holds the store.
  platform_->Down();
  authority_ = new credentials::StoredAuthority(platform_->data_dir() + "/credentials");
  platform_->Up();
  platform_->MustCapstan({"project", "create", "other"});
  platform_->MustCapstan({"role", "bind", kViewer, "viewer", "--project=default"});
  platform_->MustCapstan({"role", "bind", kStranger, "researcher", "--project=other"});
  ASSERT_EQ(platform_->SubmitText("serve", kServe).exit_code, 0);
  ASSERT_TRUE(platform_->Await(
      [] { return platform_->Get("serve").state() == scheduler::v1::Job::STATE_RUNNING; }));
  const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
  ASSERT_TRUE(endpoints.ok()) << endpoints.status();
  endpoints_ = new cli::v1::Endpoints(*endpoints);
  FindParts();
  // What came just now has reached every part's policy.
  ASSERT_TRUE(platform_->Await([] {
    return CallAs(Person(kViewer), "scheduler", "/capstan.scheduler.v1.JobService/ListJobs",
                  "projects/default")
        .ok();
  }));
}

void AccessFixture::TearDownTestSuite() {
  delete endpoints_;
  delete authority_;
  delete platform_;
  platform_ = nullptr;
  delete openid_port_;
}

void AccessFixture::SetUp() {
  if (platform_ == nullptr) GTEST_SKIP() << *TestPlatform::Unable();
  ASSERT_FALSE(parts().empty());
}

void AccessFixture::FindParts() {
  parts().clear();
  const auto all = AllMethods();
  const auto identity = Identity(absl::StrCat("/person/", kViewer));
  for (const auto& [name, endpoint] : endpoints_->parts()) {
    if (endpoint.address().empty()) continue;
    Part part{name, endpoint.address(), endpoint.metrics_address(), {}};
    const std::set<std::string> served =
        ServedBy(DialAlone(part.address, CredentialsOf(identity, name)));
    EXPECT_FALSE(served.empty()) << name;
    for (const std::string& service : served) {
      if (IsGrpcsOwn(service)) continue;
      const size_t before = part.methods.size();
      for (const Method& method : all) {
        if (method.service == service) part.methods.push_back(method);
      }
      EXPECT_GT(part.methods.size(), before)
          << name << " serves " << service << ", which is not in the matrix";
    }
    parts().push_back(std::move(part));
  }
}

std::shared_ptr<rpc::Identity> AccessFixture::Keep(rpc::Svid svid) {
  static int number = 0;
  return rpc::Identity::Store(absl::StrCat(platform_->folder(), "/identity-", ++number),
                              std::move(svid))
      .value();
}

std::shared_ptr<rpc::Identity> AccessFixture::Person(absl::string_view uid) {
  static auto* const kept = new std::map<std::string, std::shared_ptr<rpc::Identity>>();
  auto& identity = (*kept)[std::string(uid)];
  if (identity == nullptr) identity = Identity(absl::StrCat("/person/", uid));
  return identity;
}

const AccessFixture::Part& AccessFixture::PartNamed(absl::string_view name) {
  for (const Part& part : parts()) {
    if (part.name == name) return part;
  }
  ADD_FAILURE() << "no part " << name;
  return parts().front();
}

const Method& AccessFixture::MethodAt(absl::string_view path) {
  static const auto* const kAll = new std::vector<Method>(AllMethods());
  for (const Method& method : *kAll) {
    if (method.path == path) return method;
  }
  ADD_FAILURE() << "no method " << path;
  return kAll->front();
}

int64_t AccessFixture::Counter(const Part& part, absl::string_view series) {
  const std::string page = HttpGet(absl::StrCat("http://", part.metrics, "/metrics")).body;
  const std::string wanted = absl::StrCat("capstan_", part.name, "_", series, " ");
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = -1;
    if (absl::StartsWith(line, wanted) && absl::SimpleAtod(line.substr(wanted.size()), &value)) {
      return static_cast<int64_t>(value);
    }
  }
  return -1;
}

std::string AccessFixture::AccessLogOf(const Part& part) {
  std::ifstream in(absl::StrCat(platform_->data_dir(), "/log/", part.name, ".log"));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace capstan::integration
