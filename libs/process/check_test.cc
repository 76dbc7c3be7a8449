#include "libs/process/check.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace capstan::process {
namespace {

config::v1::Process Good() {
  config::v1::Process config;
  config.set_data_folder("/var/lib/capstan/scheduler");
  config.set_listen("0.0.0.0:7101");
  config.set_metrics_listen("127.0.0.1:0");
  config.mutable_joining()->set_address("credentials:7100");
  config.mutable_credentials()->add_addresses("dns:///credentials:7102");
  return config;
}

std::vector<std::string> Wrong(const config::v1::Process& config, const Kind& kind = {"scheduler"},
                               bool listens = true) {
  status::FieldErrors errors;
  CheckProcess(config, kind, listens, &errors);
  std::vector<std::string> fields;
  for (const auto& violation : errors.violations()) fields.push_back(violation.field);
  return fields;
}

using Fields = std::vector<std::string>;

TEST(CheckProcessTest, EveryFieldThatIsWrongIsNamed) {
  EXPECT_EQ(Wrong(Good()), Fields());
  EXPECT_EQ(Wrong(config::v1::Process()),
            Fields({"process.data_folder", "process.listen", "process.metrics_listen",
                    "process.joining.address", "process.credentials.addresses"}));
  struct Row {
    const char* field;
    void (*spoil)(config::v1::Process*);
  };
  const Row rows[] = {
      {"process.data_folder", [](auto* c) { c->set_data_folder("here"); }},
      {"process.data_folder", [](auto* c) { c->set_data_folder("/var/../etc"); }},
      {"process.listen", [](auto* c) { c->set_listen("7101"); }},
      {"process.listen", [](auto* c) { c->set_listen("host:65536"); }},
      {"process.advertise", [](auto* c) { c->set_advertise("host:0"); }},
      {"process.joining.address", [](auto* c) { c->mutable_joining()->set_address("host:0"); }},
      {"process.credentials.addresses",
       [](auto* c) { c->mutable_credentials()->add_addresses("name:1"); }},
      {"process.monitoring.metrics_advertise",
       [](auto* c) { c->mutable_monitoring()->set_metrics_advertise("host"); }},
      {"process.monitoring.metrics_advertise",
       [](auto* c) {
         c->set_metrics_listen("0.0.0.0:9101");
         c->mutable_monitoring()->mutable_inventory()->add_addresses("10.0.0.1:7104");
       }},
      {"process.monitoring.inventory.addresses[0]",
       [](auto* c) { c->mutable_monitoring()->mutable_inventory()->add_addresses(""); }},
      {"process.monitoring.access_log.max_lines_per_second",
       [](auto* c) {
         c->mutable_monitoring()->mutable_access_log()->set_max_lines_per_second(10001);
       }},
      {"process.monitoring.traces.otlp_address",
       [](auto* c) {
         c->mutable_monitoring()->mutable_traces()->set_otlp_address("localhost");
         c->mutable_monitoring()->mutable_traces()->set_ca_file("/etc/passwd");
       }},
      {"process.monitoring.metrics_advertise",
       [](auto* c) { c->mutable_monitoring()->set_metrics_advertise("[0::0]:9101"); }},
      // A name that only begins like a loopback address.
      {"process.monitoring.traces.ca_file",
       [](auto* c) {
         c->mutable_monitoring()->mutable_traces()->set_otlp_address("127.example:4317");
       }},
      {"process.monitoring.traces.ca_file",
       [](auto* c) {
         c->mutable_monitoring()->mutable_traces()->set_otlp_address("127.0.0.1:4317");
         c->mutable_monitoring()->mutable_traces()->set_ca_file("/no/such/file");
       }},
      {"process.monitoring.traces.ratio",
       [](auto* c) { c->mutable_monitoring()->mutable_traces()->set_ratio(1.5); }},
      {"process.monitoring.traces.background_ratio",
       [](auto* c) { c->mutable_monitoring()->mutable_traces()->set_background_ratio(-1); }},
      {"process.log.file", [](auto* c) { c->mutable_log()->set_file("x.log"); }},
      {"process.store.sqlite.path",
       [](auto* c) { c->mutable_store()->mutable_sqlite()->set_path("x"); }},
  };
  for (const Row& row : rows) {
    config::v1::Process config = Good();
    row.spoil(&config);
    EXPECT_EQ(Wrong(config), Fields({row.field}));
  }
}

TEST(CheckProcessTest, SpansMayGoToThisMachineInPlaintext) {
  for (const char* address : {"127.0.0.1:4317", "localhost:4317", "[::1]:4317"}) {
    config::v1::Process config = Good();
    config.mutable_monitoring()->mutable_traces()->set_otlp_address(address);
    EXPECT_EQ(Wrong(config), Fields()) << address;
  }
}

TEST(CheckProcessTest, AnEtcdNeedsMembersAndFiles) {
  config::v1::Process config = Good();
  auto* etcd = config.mutable_store()->mutable_etcd();
  EXPECT_EQ(Wrong(config),
            Fields({"process.store.etcd.endpoints", "process.store.etcd.ca_file",
                    "process.store.etcd.certificate_file", "process.store.etcd.key_file"}));
  etcd->add_endpoints("127.0.0.1:2379");
  etcd->add_endpoints("127.0.0.1");
  // Some file that is there.
  etcd->set_ca_file("/etc/passwd");
  etcd->set_certificate_file("/etc/passwd");
  etcd->set_key_file("/etc/passwd");
  EXPECT_EQ(Wrong(config), Fields({"process.store.etcd.endpoints[1]"}));
  etcd->mutable_endpoints()->RemoveLast();
  etcd->set_user("scheduler");
  EXPECT_EQ(Wrong(config), Fields({"process.store.etcd.password_file"}));
  etcd->set_password_file("/etc/passwd");
  EXPECT_EQ(Wrong(config), Fields());
}

TEST(CheckProcessTest, WhatAProcessDoesNotHaveIsRefused) {
  config::v1::Process config = Good();
  EXPECT_EQ(Wrong(config, {.name = "node_agent"}, /*listens=*/false), Fields({"process.listen"}));
  config.mutable_store()->mutable_sqlite();
  EXPECT_EQ(Wrong(config, {.name = "telemetry", .has_store = false}), Fields({"process.store"}));
  // credentials joins nobody.
  config = Good();
  config.clear_joining();
  config.clear_credentials();
  EXPECT_EQ(Wrong(config, {.name = "credentials", .joins = false}), Fields());
}

}  // namespace
}  // namespace capstan::process
