// Webhooks of libs/kube/webhook, called by a real API server.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_client_test_base.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/webhook/admission_review.h"
#include "libs/kube/webhook/webhook_server.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"
#include "nlohmann/json.hpp"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A certificate of 127.0.0.1 that is its own root.
ServerCertificate NewCertificate() {
  static int number = 0;
  const std::string path = absl::StrCat(::testing::TempDir(), "/webhook-", number++);
  const std::string command = absl::StrCat(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=",
      "t", number, " -addext subjectAltName=IP:127.0.0.1 -keyout ", path, ".key -out ", path,
      ".crt >/dev/null 2>&1");
  EXPECT_EQ(system(command.c_str()), 0) << command;
  return {ReadFile(path + ".crt"), ReadFile(path + ".key")};
}

// Labels what it sees.
class Mutating final : public AdmissionHandler {
 public:
  void Review(AdmissionRequest request, Done done) override {
    AdmissionResponse response;
    response.allowed = true;
    response.patch =
        absl::StrCat(R"([{"op":"add","path":"/metadata/labels","value":{"seen-by":")",
                     absl::StrReplaceAll(request.user.username, {{":", "-"}}),
                     R"("}},{"op":"add","path":"/data/uid","value":")", request.uid, R"("}])");
    done(std::move(response));
  }
};

// Refuses what is called "bad", warns of what is called "odd".
class Validating final : public AdmissionHandler {
 public:
  void Review(AdmissionRequest request, Done done) override {
    AdmissionResponse response;
    response.allowed = request.name != "bad";
    if (!response.allowed) {
      response.code = 422;
      response.reason = "Invalid";
      response.message = "only good ones, \xC3\xA9 \"quoted\"";
    }
    if (request.name == "odd") response.warnings = {"this one is odd, \xC3\xA9", "and \"quoted\""};
    done(std::move(response));
  }
};

// Never answers.
class Hanging final : public AdmissionHandler {
 public:
  void Review(AdmissionRequest, Done done) override {
    const absl::MutexLock lock(&mutex_);
    held_.push_back(std::move(done));
    ++reviews;
  }
  std::atomic<int> reviews{0};

 private:
  absl::Mutex mutex_;
  std::vector<Done> held_ ABSL_GUARDED_BY(mutex_);
};

class WebhookTest : public RealClientTestBase {
 protected:
  void SetUp() override {
    RealClientTestBase::SetUp();
    if (HasFatalFailure()) return;
    for (int i = 0; i < 4; ++i) {
      certificates_.push_back(NewCertificate());
      absl::StrAppend(&roots_, certificates_.back().chain_pem);
    }
    WebhookServer::Options options;
    options.certificate = certificates_[0];
    options.clock = &clock_;
    auto server = WebhookServer::Create(
        options, {{"/mutate", &mutating_}, {"/validate", &validating_}, {"/hang", &hanging_}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    for (const auto& [type, name] : registered_) {
      const auto gone = client_->Of(type).Delete("", name, {});
      EXPECT_TRUE(gone.ok()) << gone.status();
    }
  }

  // Registers the handler for ConfigMaps of this test's namespace, and waits until the API server
  // calls it. Names that begin with `probe` are for that.
  void Register(const std::string& kind, const std::string& path, const std::string& policy) {
    const std::string plural = kind == "MutatingWebhookConfiguration"
                                   ? "mutatingwebhookconfigurations"
                                   : "validatingwebhookconfigurations";
    const ResourceType type = {"admissionregistration.k8s.io", "v1", kind, plural, false};
    const std::string name = absl::StrCat(ns_, path.substr(1));
    const auto made = client_->Of(type).Create(ObjectOf({
        {"metadata", {{"name", name}}},
        {"webhooks",
         {{{"name", "hook.test.capstan.dev"},
           {"admissionReviewVersions", {"v1"}},
           {"sideEffects", "None"},
           {"timeoutSeconds", 1},
           {"failurePolicy", policy},
           {"namespaceSelector", {{"matchLabels", {{"kubernetes.io/metadata.name", ns_}}}}},
           {"rules",
            {{{"operations", {"CREATE"}},
              {"apiGroups", {""}},
              {"apiVersions", {"v1"}},
              {"resources", {"configmaps"}}}}},
           {"clientConfig",
            {{"url", absl::StrCat("https://127.0.0.1:", server_->port(), path)},
             {"caBundle", absl::Base64Escape(roots_)}}}}}},
    }));
    ASSERT_TRUE(made.ok()) << made.status();
    registered_.emplace_back(type, name);
  }

  absl::StatusOr<ObjectPtr<core_v1::ConfigMap>> Create(const std::string& name,
                                                       bool dry_run = false) {
    core_v1::ConfigMap map;
    map.mutable_metadata()->set_name(name);
    map.mutable_metadata()->set_namespace_(ns_);
    (*map.mutable_data())["k"] = "v";
    WriteOptions options;
    options.dry_run = dry_run;
    return client_->Of(kConfigMaps).Create(map, options);
  }

  // The API server learns of webhooks by a watch of its own.
  template <typename Seen>
  void CreateUntil(const std::string& name, const Seen& seen) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (!seen(Create(name, /*dry_run=*/true))) {
      ASSERT_LT(absl::Now(), deadline) << "the API server does not call the webhook";
    }
  }

  const SystemClock clock_;
  std::vector<ServerCertificate> certificates_;
  std::string roots_;
  Mutating mutating_;
  Validating validating_;
  Hanging hanging_;
  std::unique_ptr<WebhookServer> server_;
  std::vector<std::pair<ResourceType, std::string>> registered_;
};

TEST_F(WebhookTest, APatchArrivesInTheStoredObject) {
  Register("MutatingWebhookConfiguration", "/mutate", "Fail");
  CreateUntil("probe", [](const auto& made) {
    return made.ok() && (*made)->metadata().labels().contains("seen-by");
  });
  ASSERT_TRUE(Create("a").ok());
  const auto stored = client_->Of(kConfigMaps).Get(ns_, "a");
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_THAT((*stored)->metadata().labels().at("seen-by"), HasSubstr("admin"));
  EXPECT_EQ((*stored)->data().at("k"), "v");
  EXPECT_EQ((*stored)->data().at("uid").size(), 36u);
}

TEST_F(WebhookTest, ARefusalReachesTheClientAndWarningsToo) {
  Register("ValidatingWebhookConfiguration", "/validate", "Fail");
  CreateUntil("bad", [](const auto& made) { return !made.ok(); });
  const auto refused = Create("bad");
  EXPECT_EQ(HttpStatusOf(refused.status()), 422) << refused.status();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status::Reason(refused.status()), kInvalid);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("admission webhook \"hook.test.capstan.dev\" denied the request: only good "
                        "ones, \xC3\xA9 \"quoted\""));
  EXPECT_TRUE(absl::IsNotFound(client_->Of(kConfigMaps).Get(ns_, "bad").status()));

  client_->TakeWarnings();
  ASSERT_TRUE(Create("odd").ok());
  const std::vector<ServerWarning> warnings = client_->TakeWarnings();
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].text, "this one is odd, \xC3\xA9");
  EXPECT_EQ(warnings[1].text, "and \"quoted\"");
  EXPECT_EQ(warnings[0].method, "POST");
}

TEST_F(WebhookTest, AHangingWebhookIsAFailureIfItsPolicySaysSo) {
  Register("ValidatingWebhookConfiguration", "/hang", "Fail");
  CreateUntil("probe", [&](const auto&) { return hanging_.reviews > 0; });
  const auto refused = Create("a");
  EXPECT_EQ(HttpStatusOf(refused.status()), 500) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("hook.test.capstan.dev"));
  EXPECT_TRUE(absl::IsNotFound(client_->Of(kConfigMaps).Get(ns_, "a").status()));
}

TEST_F(WebhookTest, AHangingWebhookIsPassedOverIfItsPolicySaysSo) {
  Register("ValidatingWebhookConfiguration", "/hang", "Ignore");
  CreateUntil("probe", [&](const auto&) { return hanging_.reviews > 0; });
  const int before = hanging_.reviews;
  const auto made = Create("a");
  EXPECT_TRUE(made.ok()) << made.status();
  EXPECT_GT(hanging_.reviews, before);
}

TEST_F(WebhookTest, ACertificateIsChangedUnderAStreamOfCreatesWithoutAFailedCall) {
  Register("MutatingWebhookConfiguration", "/mutate", "Fail");
  CreateUntil("probe", [](const auto& made) {
    return made.ok() && (*made)->metadata().labels().contains("seen-by");
  });
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  std::atomic<int> made_count{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const auto made = Create(absl::StrCat("m-", thread, "-", i));
        EXPECT_TRUE(made.ok()) << made.status();
        EXPECT_TRUE(!made.ok() || (*made)->metadata().labels().contains("seen-by"));
        ++made_count;
      }
    });
  }
  int changes = 0;
  for (int done; (done = made_count) < kThreads * kEach;) {
    if (done < (changes + 1) * 20) {
      std::this_thread::yield();
      continue;
    }
    const ServerCertificate& next = certificates_[++changes % certificates_.size()];
    const absl::Status changed = server_->SetCertificate(next);
    EXPECT_TRUE(changed.ok()) << changed;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(changes, 15);
}

}  // namespace
}  // namespace capstan::kube::testing
