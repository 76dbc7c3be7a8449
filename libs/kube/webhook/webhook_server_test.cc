#include "libs/kube/webhook/webhook_server.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "curl/curl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/webhook/admission_review.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kLong = absl::Seconds(60);

std::string Review(const std::string& uid, const std::string& more = "") {
  return absl::StrCat(
      R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":")", uid,
      R"(","operation":"CREATE")", more, "}}");
}

ServerCertificate CertificateOf(const rpc::Svid& svid) {
  return {rpc::CertificatesToPem(svid.chain), svid.key_pem};
}

// A client that keeps its connection, as an API server does.
class Client {
 public:
  struct Answer {
    CURLcode code = CURLE_OK;
    long status = 0;
    std::string body;
    // Of the server's certificate; only where this call made the connection.
    std::string serial;
    bool connected = false;
  };

  Client(int port, std::string roots_pem) : port_(port), roots_pem_(std::move(roots_pem)) {}
  ~Client() { curl_easy_cleanup(curl_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void ShowCertificate(const rpc::Svid& svid) { certificate_ = CertificateOf(svid); }

  Answer Post(const std::string& path, const std::string& body,
              const char* content_type = "application/json") {
    return Perform(path, &body, content_type);
  }
  Answer Get(const std::string& path) { return Perform(path, nullptr, ""); }

 private:
  static size_t Take(char* bytes, size_t size, size_t count, void* to) {
    static_cast<std::string*>(to)->append(bytes, size * count);
    return size * count;
  }

  Answer Perform(const std::string& path, const std::string* body, const std::string& type) {
    const auto blob = [](const std::string& text) {
      return curl_blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
    };
    Answer answer;
    curl_easy_reset(curl_);
    const std::string url = absl::StrCat("https://", rpc::kTlsServerName, path);
    const std::string route = absl::StrCat("::127.0.0.1:", port_);
    curl_slist* const to = curl_slist_append(nullptr, route.c_str());
    curl_slist* headers = curl_slist_append(nullptr, "Expect:");
    headers = curl_slist_append(headers, absl::StrCat("Content-Type: ", type).c_str());
    curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl_, CURLOPT_CONNECT_TO, to);
    curl_easy_setopt(curl_, CURLOPT_PROXY, "");
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl_, CURLOPT_CERTINFO, 1L);
    curl_blob roots = blob(roots_pem_);
    curl_easy_setopt(curl_, CURLOPT_CAINFO_BLOB, &roots);
    if (!certificate_.chain_pem.empty()) {
      curl_blob chain = blob(certificate_.chain_pem);
      curl_blob key = blob(certificate_.key_pem);
      curl_easy_setopt(curl_, CURLOPT_SSLCERT_BLOB, &chain);
      curl_easy_setopt(curl_, CURLOPT_SSLKEY_BLOB, &key);
    }
    if (body != nullptr) {
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, body->data());
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE, static_cast<long>(body->size()));
    }
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, &Take);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &answer.body);
    answer.code = curl_easy_perform(curl_);
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &answer.status);
    long connections = 0;
    curl_easy_getinfo(curl_, CURLINFO_NUM_CONNECTS, &connections);
    answer.connected = connections > 0;
    curl_certinfo* certificates = nullptr;
    if (answer.connected &&
        curl_easy_getinfo(curl_, CURLINFO_CERTINFO, &certificates) == CURLE_OK &&
        certificates != nullptr && certificates->num_of_certs > 0) {
      for (const curl_slist* line = certificates->certinfo[0]; line != nullptr; line = line->next) {
        const absl::string_view text(line->data);
        if (text.substr(0, 14) == "Serial Number:") answer.serial = std::string(text.substr(14));
      }
    }
    curl_slist_free_all(to);
    curl_slist_free_all(headers);
    return answer;
  }

  CURL* const curl_ = curl_easy_init();
  const int port_;
  const std::string roots_pem_;
  ServerCertificate certificate_;
};

// Allows what is called "good", at once.
class NameHandler final : public AdmissionHandler {
 public:
  void Review(AdmissionRequest request, Done done) override {
    AdmissionResponse response;
    response.allowed = request.name == "good";
    if (!response.allowed) response.message = "only good ones";
    done(std::move(response));
  }
};

// Answers when the test says so.
class HeldHandler final : public AdmissionHandler {
 public:
  void Review(AdmissionRequest request, Done done) override {
    const absl::MutexLock lock(&mutex_);
    held_.emplace_back(std::move(request), std::move(done));
  }
  // The first one that comes.
  Done AwaitOne() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::vector<std::pair<AdmissionRequest, Done>>* held) { return !held->empty(); },
        &held_));
    Done done = std::move(held_.front().second);
    held_.erase(held_.begin());
    return done;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::pair<AdmissionRequest, Done>> held_ ABSL_GUARDED_BY(mutex_);
};

AdmissionResponse Allowed() {
  AdmissionResponse response;
  response.allowed = true;
  return response;
}

class WebhookServerTest : public ::testing::Test {
 protected:
  void Create(WebhookServer::Options options = {}) {
    first_ = authority_.Issue("/svc/credentials");
    options.certificate = CertificateOf(first_);
    options.clock = &clock_;
    auto server = WebhookServer::Create(std::move(options), {{"/name", &name_}, {"/held", &held_}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<Client> Connect() const {
    return std::make_unique<Client>(server_->port(), Roots());
  }
  std::string Roots() const { return rpc::CertificatesToPem({authority_.root()}); }

  const SystemClock clock_;
  rpc::TestAuthority authority_;
  rpc::Svid first_;
  NameHandler name_;
  HeldHandler held_;
  std::unique_ptr<WebhookServer> server_;
};

TEST_F(WebhookServerTest, AnswersReviewsOnOneConnection) {
  Create();
  const auto client = Connect();
  for (int i = 0; i < 3; ++i) {
    const std::string uid = absl::StrCat("u", i);
    const auto good = client->Post("/name?timeout=10s", Review(uid, R"(,"name":"good")"));
    ASSERT_EQ(good.code, CURLE_OK) << curl_easy_strerror(good.code);
    EXPECT_EQ(good.status, 200);
    EXPECT_EQ(good.connected, i == 0);
    const auto response = nlohmann::json::parse(good.body)["response"];
    EXPECT_EQ(response["uid"], uid);
    EXPECT_EQ(response["allowed"], true);
    const auto bad = client->Post("/name", Review(uid, R"(,"name":"bad")"));
    EXPECT_EQ(nlohmann::json::parse(bad.body)["response"]["status"]["message"], "only good ones");
  }
}

TEST_F(WebhookServerTest, SaysWhatIsWrongWithARequest) {
  WebhookServer::Options options;
  options.max_body_bytes = 4096;
  absl::Mutex mutex;
  std::vector<int> statuses;
  options.observe = [&](const WebhookOutcome& outcome) {
    const absl::MutexLock lock(&mutex);
    statuses.push_back(outcome.status);
  };
  Create(std::move(options));
  const auto client = Connect();
  EXPECT_EQ(client->Get("/healthz").status, 200);
  EXPECT_EQ(client->Get("/name").status, 405);
  EXPECT_EQ(client->Post("/nobody", Review("u")).status, 404);
  EXPECT_EQ(client->Post("/name", Review("u"), "text/plain").status, 415);
  const auto malformed = client->Post("/name", R"({"kind":"Pod"})");
  EXPECT_EQ(malformed.status, 400);
  EXPECT_EQ(malformed.body, "apiVersion: expected admission.k8s.io/v1\n");
  EXPECT_EQ(client->Post("/name", Review(std::string(8192, 'u'))).status, 413);
  EXPECT_EQ(client->Post("/name", Review("u")).status, 200);
  const absl::MutexLock lock(&mutex);
  EXPECT_THAT(statuses, ElementsAre(200, 405, 404, 415, 400, 413, 200));
}

TEST_F(WebhookServerTest, LeavesToTheApiServerWhatIsNotAnsweredInTime) {
  Create();
  const auto client = Connect();
  EXPECT_EQ(client->Post("/held?timeout=50ms", Review("late")).status, 504);
  // The answer to one review is never taken for that to another.
  AdmissionHandler::Done late = held_.AwaitOne();
  std::thread other([&] {
    late(Allowed());
    held_.AwaitOne()({});
    late(Allowed());
  });
  const auto answer = client->Post("/held", Review("next"));
  other.join();
  const auto response = nlohmann::json::parse(answer.body)["response"];
  EXPECT_EQ(response["uid"], "next");
  EXPECT_EQ(response["allowed"], false);
}

TEST_F(WebhookServerTest, TakesAnswersAfterItsEnd) {
  Create();
  const auto client = Connect();
  CURLcode code = CURLE_OK;
  std::thread asking([&] { code = client->Post("/held", Review("u")).code; });
  const AdmissionHandler::Done done = held_.AwaitOne();
  server_.reset();
  asking.join();
  EXPECT_NE(code, CURLE_OK);
  done(Allowed());
}

TEST_F(WebhookServerTest, BoundsReviewsUnderWay) {
  WebhookServer::Options options;
  options.max_reviews = 1;
  Create(std::move(options));
  long status = 0;
  std::thread first([&] { status = Connect()->Post("/held", Review("u")).status; });
  const AdmissionHandler::Done done = held_.AwaitOne();
  EXPECT_EQ(Connect()->Post("/name", Review("v")).status, 503);
  done(Allowed());
  first.join();
  EXPECT_EQ(status, 200);
  EXPECT_EQ(Connect()->Post("/name", Review("v")).status, 200);
}

TEST_F(WebhookServerTest, BoundsConnections) {
  WebhookServer::Options options;
  options.max_connections = 1;
  Create(std::move(options));
  const auto first = Connect();
  EXPECT_EQ(first->Get("/healthz").status, 200);
  EXPECT_NE(Connect()->Get("/healthz").code, CURLE_OK);
  EXPECT_EQ(first->Get("/healthz").status, 200);
}

TEST_F(WebhookServerTest, RotatesItsCertificateWithoutAFailedCall) {
  Create();
  std::atomic<bool> stop = false;
  std::atomic<int> failed = 0;
  std::atomic<int> calls = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      const auto client = Connect();
      while (!stop) {
        if (client->Post("/name", Review("u", R"(,"name":"good")")).status != 200) ++failed;
        ++calls;
      }
    });
  }
  std::string last;
  for (int i = 0; i < 10; ++i) {
    const rpc::Svid next = authority_.Issue("/svc/credentials");
    ASSERT_TRUE(server_->SetCertificate(CertificateOf(next)).ok());
    const std::string serial = Connect()->Get("/healthz").serial;
    EXPECT_NE(serial, "");
    EXPECT_NE(serial, last);
    last = serial;
    // Old connections are used, and ended, meanwhile.
    const int until = calls + 20;
    while (calls < until) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failed, 0);

  // One whose connection is older than the certificate is shown it at its next but one call.
  const auto client = Connect();
  const std::string before = client->Get("/healthz").serial;
  ASSERT_TRUE(server_->SetCertificate(CertificateOf(authority_.Issue("/svc/credentials"))).ok());
  EXPECT_FALSE(client->Get("/healthz").connected);
  const auto renewed = client->Get("/healthz");
  EXPECT_TRUE(renewed.connected);
  EXPECT_NE(renewed.serial, before);
}

TEST_F(WebhookServerTest, KeepsItsCertificateIfAnotherOneCannotBeUsed) {
  Create();
  const rpc::Svid other = authority_.Issue("/svc/credentials");
  const std::vector<ServerCertificate> wrong = {
      {},
      {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", first_.key_pem},
      {rpc::CertificatesToPem(other.chain), first_.key_pem},
      {rpc::CertificatesToPem(other.chain), "no key"},
  };
  for (const ServerCertificate& certificate : wrong) {
    const absl::Status status = server_->SetCertificate(certificate);
    EXPECT_EQ(status::Reason(status), "WEBHOOK_CERTIFICATE_UNUSABLE");
  }
  EXPECT_EQ(Connect()->Get("/healthz").status, 200);
}

TEST_F(WebhookServerTest, LetsInOnlyWhoShowsACertificateIfToldTo) {
  WebhookServer::Options options;
  options.client_roots_pem = Roots();
  Create(std::move(options));
  EXPECT_NE(Connect()->Post("/name", Review("u")).code, CURLE_OK);
  const rpc::TestAuthority stranger("other.capstan.dev");
  const auto unknown = Connect();
  unknown->ShowCertificate(stranger.Issue("/svc/kube"));
  EXPECT_NE(unknown->Post("/name", Review("u")).code, CURLE_OK);
  const auto known = Connect();
  known->ShowCertificate(authority_.Issue("/svc/kube"));
  EXPECT_EQ(known->Post("/name", Review("u")).status, 200);
}

TEST_F(WebhookServerTest, DrainsWhatIsUnderWay) {
  Create();
  long status = 0;
  std::thread asking([&] { status = Connect()->Post("/held", Review("u")).status; });
  const AdmissionHandler::Done done = held_.AwaitOne();
  EXPECT_FALSE(server_->Drain(absl::ZeroDuration()));
  std::thread answering([&] { done(Allowed()); });
  EXPECT_TRUE(server_->Drain(kLong));
  answering.join();
  asking.join();
  EXPECT_EQ(status, 200);
  EXPECT_NE(Connect()->Get("/healthz").code, CURLE_OK);
}

TEST_F(WebhookServerTest, SaysThatItsPortIsTaken) {
  Create();
  WebhookServer::Options options;
  options.certificate = CertificateOf(first_);
  options.clock = &clock_;
  options.port = server_->port();
  EXPECT_EQ(status::Reason(WebhookServer::Create(std::move(options), {}).status()),
            "WEBHOOK_PORT_UNAVAILABLE");
}

}  // namespace
}  // namespace capstan::kube
