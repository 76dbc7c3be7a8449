#ifndef CAPSTAN_INTEGRATION_PLATFORM_STORE_CONFIG_H_
#define CAPSTAN_INTEGRATION_PLATFORM_STORE_CONFIG_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::integration {

// Lines of PlatformConfig for a platform whose store is this etcd.
inline std::string StoreConfig(const testenv::EtcdServer& etcd) {
  return absl::StrCat(
      "store:\n  etcd:\n    endpoints: [", absl::StrJoin(etcd.endpoints(), ", "),
      "]\n    ca_file: ", etcd.ca_file(), "\n    certificate_file: ", etcd.certificate_file(),
      "\n    key_file: ", etcd.key_file(), "\n    server_name: ", etcd.server_name(), "\n");
}

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_STORE_CONFIG_H_
