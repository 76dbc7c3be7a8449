// Discovery over real TLS on loopback, also for clients that are slow, many or change the subject.
#include "services/credentials/adapters/openid_server.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/ssl.hpp"
#include "boost/asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "nlohmann/json.hpp"

namespace capstan::credentials {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class OpenIdServerTest : public testing::Test {
 protected:
  void Serve(OpenIdServer::Options options) {
    auto identity =
        rpc::Identity::Store(folder_.path() + "/identity", authority_.Issue("/svc/credentials"));
    ASSERT_TRUE(identity.ok()) << identity.status();
    identity_ = *std::move(identity);
    options.listen = "127.0.0.1:0";
    options.issuer = "https://id.example/capstan";
    options.identity = identity_;
    options.keys = [this] { return keys_; };
    auto server = OpenIdServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  asio::ip::tcp::endpoint endpoint() const {
    return {asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())};
  }

  // Sends the text on a connection of its own, reads to the end; `serial` gets the certificate's.
  std::string Ask(const std::string& text, std::string* serial = nullptr) {
    ssl::context context(ssl::context::tls_client);
    context.add_certificate_authority(asio::buffer(rpc::CertificatesToPem({authority_.root()})));
    context.set_verify_mode(ssl::verify_peer);
    ssl::stream<asio::ip::tcp::socket> stream(io_, context);
    boost::system::error_code error;
    stream.next_layer().connect(endpoint(), error);
    if (!error) stream.handshake(ssl::stream_base::client, error);
    if (error) return "no handshake: " + error.message();
    if (serial != nullptr) {
      X509* certificate = SSL_get1_peer_certificate(stream.native_handle());
      unsigned char* der = nullptr;
      const int size = i2d_X509(certificate, &der);
      *serial =
          rpc::ParseCertificate({reinterpret_cast<char*>(der), static_cast<size_t>(size)})->serial;
      OPENSSL_free(der);
      X509_free(certificate);
    }
    asio::write(stream, asio::buffer(text), error);
    std::string answer;
    asio::read(stream, asio::dynamic_buffer(answer), error);
    return answer;
  }

  std::string Get(const std::string& path, const std::string& headers = "") {
    return Ask(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", headers,
                            "\r\n"));
  }

  static std::string Header(const std::string& answer, const std::string& name) {
    const size_t at = answer.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 4;
    return answer.substr(begin, answer.find("\r\n", begin) - begin);
  }

  static std::string Body(const std::string& answer) {
    const size_t end = answer.find("\r\n\r\n");
    return end == std::string::npos ? "" : answer.substr(end + 4);
  }

  const TemporaryFolder folder_;
  const rpc::TestAuthority authority_;
  asio::io_context io_;
  std::shared_ptr<rpc::Identity> identity_;
  OpenIdKeys keys_{R"({"keys":[]})", absl::Minutes(5)};
  std::unique_ptr<OpenIdServer> server_;
};

TEST_F(OpenIdServerTest, SaysWhereTheKeysAre) {
  Serve({});
  const std::string answer = Get("/capstan/.well-known/openid-configuration");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(Header(answer, "Content-Type"), "application/json");
  EXPECT_EQ(Header(answer, "Cache-Control"), "public, max-age=300");
  const auto document = nlohmann::json::parse(Body(answer));
  EXPECT_EQ(document["issuer"], "https://id.example/capstan");
  EXPECT_EQ(document["jwks_uri"], "https://id.example/capstan/keys");
  EXPECT_EQ(Body(Get("/capstan/keys")), keys_.json);
}

TEST_F(OpenIdServerTest, AnEtagSparesTheBodyUntilItChanges) {
  Serve({});
  const std::string etag = Header(Get("/capstan/keys"), "ETag");
  ASSERT_FALSE(etag.empty());
  const std::string same = Get("/capstan/keys", "If-None-Match: " + etag + "\r\n");
  EXPECT_THAT(same, StartsWith("HTTP/1.1 304 "));
  EXPECT_EQ(Body(same), "");
  keys_.json = R"({"keys":[{}]})";
  const std::string changed = Get("/capstan/keys", "If-None-Match: " + etag + "\r\n");
  EXPECT_THAT(changed, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(Body(changed), keys_.json);
}

TEST_F(OpenIdServerTest, OnlyReadsAndOnlyWhatThereIs) {
  Serve({});
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/keys"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/capstan/../capstan/keys"), StartsWith("HTTP/1.1 404 "));
  const std::string head =
      Ask("HEAD /capstan/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(Header(head, "Content-Length"), absl::StrCat(keys_.json.size()));
  EXPECT_EQ(Body(head), "");
  const std::string post =
      Ask("POST /capstan/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: "
          "close\r\n\r\n");
  EXPECT_THAT(post, StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(Header(post, "Allow"), "GET, HEAD");
  EXPECT_EQ(Get("/capstan/keys", "X: " + std::string(20'000, 'x') + "\r\n"), "");
  EXPECT_EQ(Ask("\x16\x03\x01 nonsense\r\n\r\n"), "");
}

TEST_F(OpenIdServerTest, BeforeTheFirstKeyItSaysSo) {
  keys_.json = "";
  Serve({});
  EXPECT_THAT(Get("/capstan/keys"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Get("/capstan/.well-known/openid-configuration"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(OpenIdServerTest, ShowsARenewedCertificateToTheNextConnection) {
  Serve({});
  const std::string request = "GET /capstan/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  std::string before;
  std::string after;
  EXPECT_THAT(Ask(request, &before), HasSubstr("200"));
  EXPECT_EQ(before, identity_->Get()->serial);
  ASSERT_TRUE(identity_->Replace(authority_.Issue("/svc/credentials")).ok());
  EXPECT_THAT(Ask(request, &after), HasSubstr("200"));
  EXPECT_EQ(after, identity_->Get()->serial);
  EXPECT_NE(after, before);
}

TEST_F(OpenIdServerTest, EndsTheSlowAndRefusesTooMany) {
  OpenIdServer::Options options;
  options.max_connections = 2;
  options.timeout = absl::Milliseconds(500);
  Serve(std::move(options));
  std::vector<asio::ip::tcp::socket> slow;
  for (int i = 0; i < 3; ++i) {
    slow.emplace_back(io_);
    slow.back().connect(endpoint());
  }
  // The third is closed at once, the others when their time is over: nobody waits for ever.
  for (int i = 2; i >= 0; --i) {
    char byte;
    boost::system::error_code error;
    slow[i].read_some(asio::buffer(&byte, 1), error);
    EXPECT_TRUE(error == asio::error::eof || error == asio::error::connection_reset) << error;
  }
  EXPECT_THAT(Get("/capstan/keys"), StartsWith("HTTP/1.1 200 "));
}

TEST(CheckIssuerTest, AcceptsOnlyWhatVerifiersDo) {
  for (const char* good : {"https://id.example", "https://id.example:8443", "https://a/b/c"}) {
    EXPECT_TRUE(CheckIssuer(good).ok()) << good;
  }
  for (const char* bad :
       {"", "http://id.example", "https://", "https:///x", "https://a/", "https://a?b",
        "https://a#b", "https://a b", "https://u@a", "https://a\"b"}) {
    EXPECT_FALSE(CheckIssuer(bad).ok()) << bad;
  }
  EXPECT_FALSE(CheckIssuer("https://" + std::string(600, 'a')).ok());
}

}  // namespace
}  // namespace capstan::credentials
