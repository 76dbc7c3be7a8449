#include "libs/kube/connection/connection.h"

#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

TEST(ConnectionTest, CallsAndInformersShareOneTransport) {
  const SystemClock clock;
  testing::FakeApiServerOptions fake;
  fake.converter = &BuiltinConverter();
  testing::FakeApiServer server(fake, &clock);
  Connection connection(server.NewTransport(), {}, &clock);
  EXPECT_EQ(connection.ns(), "default");
  const auto maps = connection.Follow(kConfigMaps);
  ASSERT_TRUE(maps.ok()) << maps.status();
  EXPECT_EQ(*connection.Follow(kConfigMaps), *maps);
  connection.informers()->Start();
  core_v1::ConfigMap map;
  map.mutable_metadata()->set_namespace_("default");
  map.mutable_metadata()->set_name("colours");
  const auto created = connection.Calls(kConfigMaps).Create(map);
  ASSERT_TRUE(created.ok()) << created.status();
  ASSERT_TRUE(connection.informers()->AwaitSynced(absl::Seconds(60)).ok());
  (*maps)->Expect(*created);
  const auto read = (*maps)->Get("default", "colours");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->metadata().uid(), (*created)->metadata().uid());
}

TEST(ConnectionTest, AnUnverifiedServerNeedsLeave) {
  const SystemClock clock;
  const std::string path = absl::StrCat(::testing::TempDir(), "/insecure");
  std::ofstream(path) << "{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', "
                         "insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: t}}], "
                         "contexts: [{name: x, context: {cluster: c, user: u, namespace: n}}], "
                         "current-context: x}";
  const std::string variable = absl::StrCat("KUBECONFIG=", path);
  const char* const variables[] = {"HOME=/nowhere", variable.c_str(), nullptr};
  const Environment environment = EnvironmentOf(variables);
  EXPECT_EQ(environment.home, "/nowhere");
  const auto refused = Connection::Open(environment, {}, {}, &clock);
  EXPECT_EQ(status::Reason(refused.status()), kInsecureServer) << refused.status();
  ConnectionOptions options;
  options.allow_insecure = true;
  const auto allowed = Connection::Open(environment, {}, options, &clock);
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  EXPECT_EQ((*allowed)->ns(), "n");
}

TEST(ConnectionTest, TheTransportReachesWhatTheConfigurationSays) {
  ClientConfig config;
  config.server = "https://a";
  config.ca_pem = "ca";
  config.tls_server_name = "b";
  config.proxy_url = "http://p";
  config.impersonation.user = "ann";
  const TransportOptions options = TransportOptionsOf(config);
  EXPECT_EQ(options.server, "https://a");
  EXPECT_EQ(options.ca_pem, "ca");
  EXPECT_EQ(options.tls_server_name, "b");
  EXPECT_EQ(options.proxy, "http://p");
  EXPECT_EQ(options.impersonation, config.impersonation);
  EXPECT_FALSE(options.allow_plaintext);
  EXPECT_FALSE(options.insecure_skip_verify);
  config.server = "http://a";
  config.insecure_skip_tls_verify = true;
  EXPECT_TRUE(TransportOptionsOf(config).allow_plaintext);
  EXPECT_TRUE(TransportOptionsOf(config).insecure_skip_verify);
}

}  // namespace
}  // namespace capstan::kube
