#include "integration/secrets/exercise.h"

#include <algorithm>
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
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "integration/secrets/key_material.h"
#include "integration/secrets/texts.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/x509.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;
using scheduler::v1::Job;
using ::testing::HasSubstr;

// What a Job's environment holds is kept with the Job, and shown to who may get it.
std::vector<std::string> HomesOfSpecs() {
  return {"files/data/scheduler/store.sqlite*",
          "files/data/executor/store.sqlite*",
          "files/data/node_agent/store.sqlite*",
          "files/data/node_agent/tasks/*",
          "files/data/telemetry/archive.sqlite*",
          "files/backup*",
          "environment of Task *",
          "cli job get *",
          "update by JobService/UpdateJob"};
}

}  // namespace

const std::vector<std::string>& Exercise::Parts() {
  static const auto& parts =
      *new std::vector<std::string>{"credentials", "scheduler",   "telemetry",      "executor",
                                    "node_agent",  "data_loader", "cluster_manager"};
  return parts;
}

Exercise::Exercise() : web_port_(testenv::LoopbackPort::Take().value()) {}

Exercise::~Exercise() = default;

void Exercise::Run() {
  const std::vector<void (Exercise::*)()> steps = {
      &Exercise::StartWebServer,    &Exercise::StartPlatform,  &Exercise::PlantKeys,
      &Exercise::RunJobs,           &Exercise::JoinAndMisjoin, &Exercise::LoadFromSignedUrls,
      &Exercise::GoIntoTheTask,     &Exercise::IssueTokens,    &Exercise::PutSecretsIntoWrongFields,
      &Exercise::UpdateWithSecrets, &Exercise::TakeBackups,    &Exercise::LookAround,
      &Exercise::CrashEveryPart,    &Exercise::LookAround};
  for (const auto step : steps) {
    (this->*step)();
    if (::testing::Test::HasFatalFailure()) return;
  }
  platform_->MustCapstan({"job", "cancel", "serve", "--wait"});
  platform_->Down();
  scan_.LookAtFolder("files", platform_->folder());
}

void Exercise::StartPlatform() {
  platform_ = std::make_unique<TestPlatform>(
      absl::StrCat("log_level: LOG_LEVEL_DEBUG\n"
                   "monitoring:\n"
                   "  access_log: {calls: CALLS_ALL, max_lines_per_second: 10000}\n"
                   "  traces: {otlp_address: '",
                   spans_.address(),
                   "', background_ratio: 1}\n"
                   "credentials: {issuer: 'https://id.example'}\n"
                   "data_loader:\n"
                   "  http:\n"
                   "    allowed_url_prefixes: ['",
                   Web(),
                   "']\n"
                   "    allowed_addresses: ['127.0.0.1']\n"
                   "    ca_file: ",
                   own_.path(), "/ca.pem\n"));
  platform_->Up();
  ASSERT_TRUE(platform_->AwaitReady());
  // The CA's key and the tokens' can be read once nobody holds the store.
  platform_->Down();
  authority_ =
      std::make_unique<credentials::StoredAuthority>(platform_->data_dir() + "/credentials");
  platform_->Up();
  ASSERT_TRUE(platform_->AwaitReady());
  endpoints_ = cli::ReadEndpoints(platform_->data_dir()).value();
}

std::string Exercise::Plant(const std::string& name, std::vector<std::string> homes,
                            std::string value) {
  if (value.empty()) value = RandomText(40);
  scan_.Add({name, value, std::move(homes)});
  planted_.insert(name);
  return value;
}

std::string Exercise::OwnFile(const std::string& name, const std::string& bytes) {
  const std::string path = absl::StrCat(own_.path(), "/", name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

CommandResult Exercise::Capstan(const std::vector<std::string>& words, const std::string& input) {
  std::vector<std::string> line = {"/bin/sh", "-c", "exec \"$@\" <\"$0\"", input};
  for (std::string& word : platform_->CommandLine(words)) line.push_back(std::move(word));
  CommandResult result = RunCommand(
      line, {"PATH=/usr/bin:/bin", "HOME=" + platform_->folder(), "LANG=C.UTF-8"}, own_.path());
  const std::string place = absl::StrCat(
      "cli ", absl::StrJoin(std::vector<std::string>(
                                words.begin(), words.begin() + std::min<size_t>(3, words.size())),
                            " "));
  scan_.Look(place, result.out);
  scan_.Look(place, result.err);
  return result;
}

std::string Exercise::Web() const {
  return absl::StrCat("https://127.0.0.1:", web_port_.number(), "/");
}

void Exercise::StartWebServer() {
  fs::create_directories(own_.path() + "/served");
  OwnFile("served/a.txt", "abc");
  auto server = testenv::ServerProcess::Start(
      {"/usr/bin/python3", fs::absolute("integration/http_source/file_server.py"),
       own_.path() + "/served", absl::StrCat(web_port_.number()), own_.path()},
      own_.path() + "/server.log");
  ASSERT_TRUE(server.ok()) << server.status();
  web_ = *std::move(server);
  const absl::Status ready = web_->WaitReady(absl::Seconds(60));
  ASSERT_TRUE(ready.ok()) << ready;
}

void Exercise::PlantKeys() {
  ASSERT_GE(authority_->private_keys().size(), 3u) << "CA, ES256, RS256";
  Plant("key of the CA", {}, ScalarOfDer(authority_->private_keys().front()));
  for (size_t i = 1; i < authority_->private_keys().size(); ++i) {
    for (const std::string& member : PrivateMembersOfJwk(authority_->private_keys()[i])) {
      Plant(absl::StrCat("key ", i, " of tokens"), {}, member);
    }
  }
  const std::string keeper = platform_->data_dir() + "/credentials/key_keeper.key";
  Plant("key keeper's key",
        {"files/data/credentials/key_keeper.key", "files/backup/*key_keeper.key"},
        ReadFile(keeper));
  platform_->MustCapstan({"access", "whoami"});
  std::vector<std::string> holders = Parts();
  holders.push_back("person");
  for (const std::string& holder : holders) {
    std::string file =
        absl::StrCat(holder == "person" ? holder : absl::StrCat(holder, "/identity"), "/svid.pem");
    const std::string key = ScalarOfPem(ReadFile(absl::StrCat(platform_->data_dir(), "/", file)));
    ASSERT_FALSE(key.empty()) << file;
    Plant(absl::StrCat("key of ", holder), {absl::StrCat("files/data/", file)}, key);
  }
}

void Exercise::RunJobs() {
  const std::string password = Plant("a Job's variable", HomesOfSpecs());
  std::vector<std::string> homes = HomesOfSpecs();
  homes.insert(homes.end(), {"files/data/telemetry/streams/*", "cli job logs *"});
  const std::string said = Plant("what a Task says", std::move(homes));
  const std::string rest = absl::StrCat(
      "      env: {PASSWORD: ", password, ", SAYS: ", said, ", WITNESS_FILE: ", platform_->folder(),
      "/witness/log}\n      resources: {cpu: 10m, memory: 64Mi}\n", "  retry: {max_restarts: 0}\n");
  // No secret, and like one in every other way: where it is seen there would secrets be.
  const std::string label = Plant("a Job's label", {"*"});
  const std::string head =
      absl::StrCat("spec:\n  labels: {about: ", label, "}\n",
                   "  output: true\n  task_groups:\n    - name: w\n      replicas: 1\n");
  const std::string serve = OwnFile(
      "serve.yaml",
      absl::StrCat(head, "      argv: [/bin/sh, -c, 'echo $SAYS; exec sleep 3600']\n", rest));
  const std::string fails =
      OwnFile("fails.yaml",
              absl::StrCat(head, "      argv: [/bin/sh, -c, 'echo $SAYS >&2; exit 3']\n", rest));
  ASSERT_EQ(Capstan({"job", "submit", serve, "--job-id", "serve"}).exit_code, 0);
  ASSERT_EQ(Capstan({"job", "submit", fails, "--job-id", "fails"}).exit_code, 0);
  ASSERT_TRUE(
      platform_->Await([this] { return platform_->Get("serve").state() == Job::STATE_RUNNING; }));
  ASSERT_TRUE(
      platform_->Await([this] { return platform_->Get("fails").state() == Job::STATE_FAILED; }));
  ASSERT_TRUE(platform_->Await([&] {
    return absl::StrContains(Capstan({"job", "logs", "serve"}).out, said) &&
           absl::StrContains(Capstan({"job", "logs", "fails"}).out, said);
  }));
  EXPECT_THAT(Capstan({"job", "get", "serve", "-o", "json"}).out, HasSubstr(password));
  for (const char* words : {"job explain serve", "job list -o wide", "job events serve",
                            "job top serve --once", "audit list --limit 1000", "node list"}) {
    Capstan(absl::StrSplit(words, ' '));
  }
  // In the wrong place of a file: told to who wrote it, and to nobody else.
  const std::string misplaced = Plant("in a submit file's wrong place", {"cli job submit*"});
  for (const std::string& wrong :
       {absl::StrReplaceAll(rest, {{"cpu: 10m", absl::StrCat("cpu: ", misplaced)}}),
        absl::StrReplaceAll(rest, {{"max_restarts: 0", absl::StrCat("max_restarts: ", misplaced)}}),
        absl::StrCat(rest, "  queue: ", misplaced, "\n"),
        absl::StrCat(rest, "  bundle: ", misplaced, "\n")}) {
    const std::string file = OwnFile("wrong.yaml", absl::StrCat(head, "      argv: [x]\n", wrong));
    EXPECT_NE(Capstan({"job", "submit", file}).exit_code, 0);
  }
  const auto task = platform_->FindTask("serve", 1, 0);
  ASSERT_TRUE(task.has_value());
  const std::string variables =
      absl::StrReplaceAll(ReadFile(absl::StrCat("/proc/", task->program.pid, "/environ")),
                          {{std::string(1, '\0'), "\n"}});
  const std::string folder = Between(variables, "CAPSTAN_SVID_DIR=", "\n");
  ASSERT_FALSE(folder.empty());
  const std::string key = ScalarOfPem(
      ReadFile(absl::StrCat("/proc/", task->program.pid, "/root", folder, "/svid_key.pem")));
  ASSERT_FALSE(key.empty()) << folder;
  // It is asked for within the Task, too.
  Plant("key of a Task", {"files/data/node_agent/tasks/*/svid_key.pem", "cli job exec *"}, key);
}

absl::Status Exercise::Join(const std::string& token, const std::string& request) {
  const auto channel =
      rpc::Dial(endpoints_.join_address(),
                rpc::JoinChannelCredentials(token.substr(token.rfind('.') + 1), &clock_));
  credentials::v1::JoinRequest join;
  join.set_token(token);
  join.set_certificate_request(request);
  credentials::v1::JoinResponse joined;
  grpc::ClientContext context;
  const grpc::Status status =
      credentials::v1::JoinService::NewStub(channel)->Join(&context, join, &joined);
  scan_.Look("answer of Join", status.error_message());
  scan_.Look("answer of Join", status.error_details());
  return status.ok() ? absl::OkStatus() : absl::PermissionDeniedError(status.error_message());
}

// Tokens that are used, used again, expired, mistaken, torn, and a key in a request's place.
void Exercise::JoinAndMisjoin() {
  const auto request = [] {
    return rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value();
  };
  const auto make = [this](const std::string& name, const std::string& path,
                           const std::string& ttl) {
    const CommandResult made = Capstan({"access", "join-token", path, "--ttl", ttl});
    std::string token(absl::StripAsciiWhitespace(made.out));
    const std::vector<std::string> words = absl::StrSplit(token, '.');
    EXPECT_EQ(words.size(), 3u) << made.err;
    if (words.size() == 3) Plant(name, {"cli access join-token " + path}, words[1]);
    return token;
  };
  const std::string used = make("used join token", "/node/local/n-1", "5m");
  EXPECT_TRUE(Join(used, request()).ok());
  EXPECT_FALSE(Join(used, request()).ok());
  const std::string expired = make("expired join token", "/node/local/n-2", "1s");
  const BootTime late = clock_.Read().boot + absl::Seconds(2);
  platform_->Await([&] { return clock_.Read().boot >= late; });
  EXPECT_FALSE(Join(expired, request()).ok());
  const std::string good = make("unused join token", "/node/local/n-3", "5m");
  const size_t secret = good.find('.') + 1;
  ASSERT_EQ(good.rfind('.'), secret + 64) << good.size();
  const std::string mistake = rpc::Sha256Hex(RandomText(20));
  const std::string mistaken = good.substr(0, secret) + mistake + good.substr(secret + 64);
  Plant("mistaken join token", {}, mistake);
  EXPECT_FALSE(Join(mistaken, request()).ok());
  EXPECT_FALSE(Join(good.substr(0, secret + 40) + good.substr(good.rfind('.')), request()).ok());
  const std::string pem = NewKeyPem();
  Plant("key in a request's place", {}, ScalarOfPem(pem));
  EXPECT_FALSE(Join(good, pem).ok());
  // A part that is given a token which is none, or another's.
  const std::string folder = own_.path() + "/joining";
  for (const std::string& token : {mistaken, expired, good.substr(0, secret + 50), "token " + good,
                                   std::string(5000, 'x') + good}) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    const std::string config =
        OwnFile("joining.yaml",
                absl::StrReplaceAll(ReadFile(platform_->data_dir() + "/telemetry/config.yaml"),
                                    {{platform_->data_dir() + "/telemetry", folder}}));
    EXPECT_NE(Capstan({"serve", "telemetry", "--config", config, "--join-token-fd", "0"},
                      OwnFile("token", token))
                  .exit_code,
              0);
  }
  scan_.LookAtFolder("joining", folder);
}

// Queries that sign a URL, and passwords in them.
void Exercise::LoadFromSignedUrls() {
  const std::vector<std::string> staged = {"files/data/data_loader/site/staging/loads/*"};
  const std::string good = Plant("a good URL's signature", staged);
  const std::string bad = Plant("a useless URL's signature", staged);
  OwnFile("served/good.index", absl::StrCat(Web(), "a.txt?signature=", good, "\n"));
  OwnFile("served/absent.index", absl::StrCat(Web(), "absent.txt?signature=", bad, "\n"));
  OwnFile("served/elsewhere.index",
          absl::StrCat("https://example.com/a.txt?signature=", bad, "\n"));
  OwnFile("served/wrong.index", absl::StrCat(Web(), "%2e%2e/a.txt?signature=", bad, "\n"));
  const std::string inside = Plant("password in an index", {});
  OwnFile("served/user.index", absl::StrCat("https://user:", inside, "@127.0.0.1/a.txt\n"));
  for (const char* name : {"good", "absent", "elsewhere", "wrong", "user"}) {
    EXPECT_EQ(Capstan({"dataset", "create", name, "--source", absl::StrCat(Web(), name, ".index")})
                  .exit_code,
              0);
    const CommandResult loaded = Capstan({"load", "start", name, "--watch"});
    EXPECT_EQ(loaded.exit_code == 0, name == std::string("good")) << loaded.out << loaded.err;
  }
  Capstan({"load", "list", "-o", "json"});
  const std::string url = Plant("password in a URL", {});
  for (const std::string& wrong :
       {absl::StrCat("https://user:", url, "@127.0.0.1/a"),
        absl::StrCat("https://", url, "@127.0.0.1/a"), absl::StrCat("ftp://user:", url, "@host/a"),
        absl::StrCat("https://127.0.0.1/a?signature=", url),
        absl::StrCat("https://127.0.0.1/a b?signature=", url),
        absl::StrCat("https://user:", url, "@127.0.0.1/", std::string(3000, 'x')),
        absl::StrCat("https://user:", url, "@[::1/a"), absl::StrCat("user:", url, "@host/a")}) {
    EXPECT_EQ(Capstan({"dataset", "create", "wrong", "--source", wrong}).exit_code, 3) << wrong;
  }
}

}  // namespace capstan::integration
