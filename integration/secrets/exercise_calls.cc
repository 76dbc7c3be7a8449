#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/empty.pb.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "integration/access/method_catalog.h"
#include "integration/access/raw_call.h"
#include "integration/monitoring/http_request.h"
#include "integration/secrets/exercise.h"
#include "integration/secrets/key_material.h"
#include "integration/secrets/texts.h"
#include "integration/secrets/wrong_fields.h"
#include "libs/rpc/credentials.h"
#include "libs/safe_path/folder_names.h"
#include "proto/capstan/credentials/v1/token_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/spiffe/workload/workload.pb.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Nobody's on a Debian machine.
constexpr char kStranger[] = "4004";
// For a stream that is let in and has nothing to say.
constexpr absl::Duration kSilence = absl::Milliseconds(500);

// The message of the first frame of gRPC in an answer.
std::string FirstMessage(const std::string& answer) {
  if (answer.size() < 5) return "";
  size_t size = 0;
  for (int i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(answer[i]);
  return answer.substr(5, size);
}

}  // namespace

// What goes through a session is nobody's but its two ends'.
void Exercise::GoIntoTheTask() {
  const std::string typed = Plant("typed into a Task", {"cli job exec *"});
  ASSERT_TRUE(platform_->Await([&] {
    return absl::StrContains(
        Capstan({"job", "exec", "serve", "-i", "--", "cat"}, OwnFile("typed", typed)).out, typed);
  }));
  // The Task's own Workload API, as a program in it would ask: HTTP/2 by hand.
  const auto ask = [this](const std::string& method, const std::string& message) {
    const std::string frame =
        absl::StrCat(std::string(4, '\0'), std::string(1, static_cast<char>(message.size())));
    const CommandResult answer = Capstan(
        {"job", "exec", "serve", "-i", "--", "/bin/sh", "-c",
         absl::StrCat("curl -s -m 3 --http2-prior-knowledge --unix-socket "
                      "${SPIFFE_ENDPOINT_SOCKET#unix://} -H 'content-type: application/grpc' "
                      "-H 'te: trailers' -H 'workload.spiffe.io: true' --data-binary @- "
                      "http://localhost/SpiffeWorkloadAPI/",
                      method)},
        OwnFile("frame", frame + message));
    return FirstMessage(answer.out);
  };
  JWTSVIDRequest request;
  request.add_audience("audience.example");
  JWTSVIDResponse tokens;
  ASSERT_TRUE(tokens.ParseFromString(ask("FetchJWTSVID", request.SerializeAsString())));
  ASSERT_GE(tokens.svids_size(), 1);
  for (const JWTSVID& token : tokens.svids()) PlantToken("a Task's own JWT-SVID", token.svid());
  X509SVIDResponse svids;
  ASSERT_TRUE(svids.ParseFromString(ask("FetchX509SVID", "")));
  ASSERT_EQ(svids.svids_size(), 1);
  Plant("key from the Workload API",
        {"files/data/node_agent/tasks/*/svid_key.pem", "cli job exec *"},
        ScalarOfDer(svids.svids(0).x509_svid_key()));
  // One that is no good, to be verified.
  ValidateJWTSVIDRequest validate;
  validate.set_audience("audience.example");
  validate.set_svid(PlantToken("a token that is no good",
                               absl::StrCat("eyJhbGciOiJFUzI1NiJ9.e30.", RandomText(86))));
  ask("ValidateJWTSVID", validate.SerializeAsString());
}

std::string Exercise::PlantToken(const std::string& name, const std::string& token) {
  Plant(name, {"cli job exec *"}, token.substr(token.rfind('.') + 1));
  return token;
}

// As the Node, from credentials itself.
void Exercise::IssueTokens() {
  const auto node = rpc::Identity::Load(platform_->data_dir() + "/node_agent/identity").value();
  const auto channel =
      DialAlone(endpoints_.parts().at("credentials").address(),
                rpc::MutualTlsChannelCredentials(node, &clock_, "/svc/credentials"));
  credentials::v1::IssueTaskJwtRequest request;
  request.set_job("projects/default/jobs/serve");
  request.set_service_account("projects/default/serviceAccounts/default");
  request.set_job_uid(platform_->Get("serve").uid());
  request.set_generation(1);
  request.set_group("w");
  request.add_audiences("audience.example");
  for (const char* algorithm : {"ES256", "RS256"}) {
    request.set_algorithm(algorithm);
    grpc::ClientContext context;
    credentials::v1::JwtSvid token;
    const grpc::Status issued =
        credentials::v1::TokenService::NewStub(channel)->IssueTaskJwt(&context, request, &token);
    ASSERT_TRUE(issued.ok()) << issued.error_message();
    PlantToken(absl::StrCat("JWT-SVID by ", algorithm), token.token());
  }
}

std::shared_ptr<rpc::Identity> Exercise::IdentityOf(const std::string& path) {
  const absl::Time now = clock_.Read().wall;
  return rpc::Identity::Store(
             absl::StrCat(own_.path(), "/identity-", ++identities_),
             authority_->Issue(absl::StrCat("spiffe://", authority_->trust_domain(), path),
                               now - absl::Hours(1), now + absl::Hours(1)))
      .value();
}

// Everybody may paste what they should not: a token, a key, a URL, into each text of each
// method's request. Whoever sent it is told; nobody else is.
void Exercise::PutSecretsIntoWrongFields() {
  const std::string signature = RandomText(86);
  const std::string token = absl::StrCat(RandomText(32), ".", RandomText(64), ".x");
  const std::string pem = NewKeyPem();
  const std::string url = RandomText(40);
  const std::vector<std::string> texts = {
      absl::StrCat("eyJhbGciOiJFUzI1NiJ9.e30.", signature), token, pem,
      absl::StrCat("https://user:", url, "@host/path?signature=", url)};
  const std::vector<std::string> told = {"answer of *"};
  // A refused call is audited with the resource that it named: docs/security.md, known to be open.
  const std::vector<std::string> audited = {"answer of *", "files/data/*/audit.chain",
                                            "files/data/credentials/store.sqlite*", "files/backup*",
                                            "cli audit list*"};
  Plant("JWT in wrong fields", audited, signature);
  Plant("token in wrong fields", told, token.substr(33, 64));
  Plant("key in wrong fields", told, ScalarOfPem(pem));
  Plant("URL in wrong fields", told, url);
  const auto admin = rpc::Identity::Load(platform_->data_dir() + "/person").value();
  const auto stranger = IdentityOf(absl::StrCat("/person/", kStranger));
  const auto node = IdentityOf("/node/elsewhere/n1");
  int calls = 0;
  for (const auto& [part, endpoint] : endpoints_.parts()) {
    if (endpoint.address().empty()) continue;
    const std::string path = part == "executor" ? "/executor/local" : "/svc/" + part;
    for (const auto& identity : {admin, stranger, node}) {
      const auto channel =
          DialAlone(endpoint.address(), rpc::MutualTlsChannelCredentials(identity, &clock_, path));
      const std::set<std::string> served = ServedBy(channel);
      for (const Method& method : AllMethods()) {
        if (served.count(method.service) == 0) continue;
        for (const std::string& text : texts) {
          // Only an admin sends them all.
          if (identity != admin && text != texts.front()) continue;
          const grpc::Status status =
              RawCall(channel, method.path, *RequestFullOf(method, text), kSilence);
          scan_.Look("answer of " + method.path, status.error_message());
          scan_.Look("answer of " + method.path, status.error_details());
          ++calls;
        }
      }
    }
  }
  std::printf("%d calls with secrets in wrong fields\n", calls);
  EXPECT_GT(calls, 300);
}

// Writes that are accepted. Whoever changes a thing sends back all of it: what the mask does not
// name, or only the service says, is nobody's. What it does name, and why something was done, stays with the thing, for those
// who may see it.
void Exercise::UpdateWithSecrets() {
  const auto admin = rpc::Identity::Load(platform_->data_dir() + "/person").value();
  const auto channel =
      DialAlone(endpoints_.parts().at("scheduler").address(),
                rpc::MutualTlsChannelCredentials(admin, &clock_, "/svc/scheduler"));
  const auto update = [&](const std::string& method, const google::protobuf::Message& request) {
    google::protobuf::Empty answer;
    const grpc::Status status =
        RawAnswer(channel, "/capstan.scheduler.v1." + method, request, absl::Seconds(20), &answer);
    EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
    scan_.Look("update by " + method, answer.SerializeAsString());
  };
  const std::string unmasked = Plant("in what a write does not ask for", {});
  scheduler::v1::UpdateJobRequest job;
  FillTexts(job.mutable_job(), unmasked);
  job.mutable_job()->set_name("projects/default/jobs/serve");
  job.mutable_job()->clear_etag();
  job.mutable_job()->mutable_spec()->set_priority(7);
  job.mutable_update_mask()->add_paths("spec.priority");
  update("JobService/UpdateJob", job);

  // What only the service says.
  scheduler::v1::CreateQueueRequest create;
  create.set_queue_id("updated");
  create.mutable_queue()->set_uid(unmasked);
  create.mutable_queue()->set_etag(unmasked);
  create.mutable_queue()->add_usage()->set_resource(unmasked);
  update("QueueService/CreateQueue", create);
  scheduler::v1::UpdateQueueRequest queue;
  *queue.mutable_queue() = create.queue();
  queue.mutable_queue()->set_name("queues/updated");
  queue.mutable_queue()->clear_etag();
  queue.mutable_queue()->set_weight(7);
  queue.mutable_update_mask()->add_paths("weight");
  update("QueueService/UpdateQueue", queue);
  // As a Project's name may be.
  const std::string masked =
      Plant("in what an update's mask names",
            {"files/data/scheduler/store.sqlite*", "files/data/scheduler/recordings/*",
             "files/backup*", "update by *", "cli queue *"},
            absl::AsciiStrToLower("p" + RandomText(40)));
  queue.mutable_queue()->add_projects("projects/" + masked);
  queue.mutable_update_mask()->add_paths("projects");
  update("QueueService/UpdateQueue", queue);
  Capstan({"queue", "get", "updated", "-o", "json"});

  const std::string reason =
      Plant("why a Node was cordoned",
            {"files/data/scheduler/store.sqlite*", "files/data/scheduler/recordings/*",
             "files/data/scheduler/audit.chain", "files/backup*", "update by *", "cli node *",
             "cli audit list*"});
  scheduler::v1::CordonNodeRequest cordon;
  cordon.set_name("clusters/local/nodes/node-0");
  cordon.set_reason(reason);
  update("NodeService/CordonNode", cordon);
  Capstan({"node", "list", "-o", "json"});
  Capstan({"job", "explain", "serve"});
  EXPECT_EQ(Capstan({"node", "uncordon", "node-0"}).exit_code, 0);
}

void Exercise::TakeBackups() {
  const std::string backup = platform_->folder() + "/backup";
  EXPECT_EQ(Capstan({"admin", "backup", "--out", backup}).exit_code, 0);
  EXPECT_EQ(
      Capstan({"admin", "backup", "--out", backup + "-without-key", "--without-key"}).exit_code, 0);
  Capstan({"admin", "check", "--from", backup});
}

// All that a running platform shows.
void Exercise::LookAround() {
  Capstan({"audit", "list", "--limit", "10000"});
  Capstan({"audit", "list", "--limit", "10000", "-o", "json"});
  for (const auto& [part, endpoint] : endpoints_.parts()) {
    for (const char* page : {"/metrics", "/healthz", "/readyz"}) {
      const HttpAnswer answer = HttpGet(absl::StrCat("http://", endpoint.metrics_address(), page));
      EXPECT_FALSE(answer.body.empty()) << part << page;
      scan_.Look(absl::StrCat("metrics of ", part), answer.body);
    }
  }
  scan_.Look("spans", spans_.Received());
  scan_.LookAtProcesses();
  scan_.LookAtFolder("files", platform_->folder());
}

// Each part in turn; what it leaves is looked at afterwards.
void Exercise::CrashEveryPart() {
  for (const std::string& part : Parts()) {
    const auto process = platform_->Part(part);
    ASSERT_TRUE(process.has_value()) << part;
    core_limits_.push_back(absl::StrCat(part, ": ", CoreLimitOf(process->pid)));
    const std::string folder =
        fs::read_symlink(absl::StrCat("/proc/", process->pid, "/cwd")).string();
    const auto cores = [&] {
      std::vector<std::string> names;
      for (const std::string& name : FolderNames(folder)) {
        if (absl::StartsWith(name, "core")) names.push_back(absl::StrCat(folder, "/", name));
      }
      return names;
    };
    const std::vector<std::string> before = cores();
    dev::SignalProcess(*process, SIGABRT);
    ASSERT_TRUE(platform_->Await([&] {
      const auto now = platform_->Part(part);
      return now.has_value() && now->pid != process->pid;
    })) << part;
    for (const std::string& core : cores()) {
      if (std::find(before.begin(), before.end(), core) != before.end()) continue;
      cores_left_ += core + "\n";
      scan_.LookAtFile("core of " + part, core);
      fs::remove(core);
    }
  }
  ASSERT_TRUE(platform_->AwaitReady());
  const auto task = platform_->FindTask("serve", 1, 0);
  ASSERT_TRUE(task.has_value()) << "the Task has ended with a part";
  for (const dev::ProcessId& process : {task->shim, task->init, task->program}) {
    core_limits_.push_back(absl::StrCat("of the Task: ", CoreLimitOf(process.pid)));
  }
  // Keys are made anew, if at all, when a part has joined anew; none has.
  for (const std::string& part : Parts()) {
    EXPECT_THAT(ReadFile(absl::StrCat(platform_->data_dir(), "/log/", part, ".out")),
                HasSubstr("SIGABRT received at"))
        << part;
  }
}

std::string Exercise::CoreLimitOf(pid_t pid) {
  const std::string limits = ReadFile(absl::StrCat("/proc/", pid, "/limits"));
  const std::vector<std::string> words =
      absl::StrSplit(Between(limits, "Max core file size", "bytes"), ' ', absl::SkipEmpty());
  return absl::StrJoin(words, " ");
}

}  // namespace capstan::integration
