#include "libs/process/check.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/address/host_port.h"
#include "libs/rpc/replicas.h"
#include "libs/time/proto_time.h"

namespace capstan::process {
namespace {

// As config.v1.Peer says.
constexpr int kMaxReplicas = 16;

constexpr int kMostLinesPerSecond = 10'000;

void CheckRatio(absl::string_view field, double ratio, status::FieldErrors* errors) {
  // NaN is in no range.
  if (!(ratio >= 0 && ratio <= 1)) {
    errors->Add(field, absl::StrCat("is ", ratio, "; expected 0 to 1"));
  }
}

void CheckFile(absl::string_view field, const std::string& path, status::FieldErrors* errors) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) {
    errors->Add(field, absl::StrCat("is '", path, "'; expected the path of a file that is there"));
  }
}

void CheckEtcd(const config::v1::Store::Etcd& etcd, status::FieldErrors* errors) {
  if (etcd.endpoints().empty()) {
    errors->Add("process.store.etcd.endpoints",
                "names no member; expected `host:port` of every member");
  }
  for (int i = 0; i < etcd.endpoints_size(); ++i) {
    CheckAddress(absl::StrCat("process.store.etcd.endpoints[", i, "]"), etcd.endpoints(i), false,
                 errors);
  }
  CheckFile("process.store.etcd.ca_file", etcd.ca_file(), errors);
  CheckFile("process.store.etcd.certificate_file", etcd.certificate_file(), errors);
  CheckFile("process.store.etcd.key_file", etcd.key_file(), errors);
  if (etcd.user().empty() != etcd.password_file().empty()) {
    errors->Add("process.store.etcd.password_file",
                "expected together with `user`: set both or none");
  } else if (!etcd.password_file().empty()) {
    CheckFile("process.store.etcd.password_file", etcd.password_file(), errors);
  }
}

void CheckMonitoring(const config::v1::Process& config, status::FieldErrors* errors) {
  const config::v1::Monitoring& monitoring = config.monitoring();
  const std::string& advertise = monitoring.metrics_advertise();
  if (!advertise.empty()) {
    CheckAddress("process.monitoring.metrics_advertise", advertise, false, errors);
  }
  for (int i = 0; i < monitoring.inventory().addresses_size(); ++i) {
    if (monitoring.inventory().addresses(i).empty()) {
      errors->Add(absl::StrCat("process.monitoring.inventory.addresses[", i, "]"),
                  "is empty; expected `host:port` of a replica of telemetry");
    }
  }
  if (monitoring.inventory().addresses_size() > kMaxReplicas) {
    errors->Add("process.monitoring.inventory.addresses",
                absl::StrCat("has ", monitoring.inventory().addresses_size(),
                             " entries; expected at most ", kMaxReplicas));
  }
  CheckAccessLog("process.monitoring.access_log", monitoring.access_log(), errors);
  CheckTraces("process.monitoring.traces", monitoring.traces(), errors);
  const std::string& listen = config.metrics_listen();
  if (monitoring.has_inventory() && advertise.empty() && address::IsUnspecified(listen)) {
    errors->Add("process.monitoring.metrics_advertise",
                absl::StrCat("is needed, since nobody can dial metrics_listen, '", listen,
                             "'; expected `host:port`"));
  } else if (address::IsUnspecified(advertise)) {
    errors->Add("process.monitoring.metrics_advertise",
                absl::StrCat("is '", advertise, "', which nobody can dial; expected `host:port`"));
  }
}

}  // namespace

void CheckProcess(const config::v1::Process& config, const Kind& kind, bool listens,
                  status::FieldErrors* errors) {
  CheckAbsolutePath("process.data_folder", config.data_folder(), errors);
  if (listens) {
    CheckAddress("process.listen", config.listen(), true, errors);
    if (!config.advertise().empty()) {
      CheckAddress("process.advertise", config.advertise(), false, errors);
    }
  } else if (!config.listen().empty()) {
    errors->Add("process.listen", absl::StrCat("a ", kind.name, " serves no port: leave it out"));
  }
  CheckAddress("process.metrics_listen", config.metrics_listen(), true, errors);
  if (kind.joins) {
    CheckAddress("process.joining.address", config.joining().address(), false, errors);
    CheckPeer("process.credentials", config.credentials(), errors);
  }
  if (!config.log().file().empty()) {
    CheckAbsolutePath("process.log.file", config.log().file(), errors);
  }
  if (!kind.has_store && config.has_store()) {
    errors->Add("process.store", absl::StrCat("a ", kind.name, " has none: leave it out"));
  }
  if (config.store().has_sqlite() && !config.store().sqlite().path().empty()) {
    CheckAbsolutePath("process.store.sqlite.path", config.store().sqlite().path(), errors);
  }
  if (config.store().has_etcd()) CheckEtcd(config.store().etcd(), errors);
  CheckMonitoring(config, errors);
}

void CheckPeer(absl::string_view field, const config::v1::Peer& peer, status::FieldErrors* errors) {
  const absl::StatusOr<std::string> target = rpc::ReplicaTarget(
      std::vector<std::string>(peer.addresses().begin(), peer.addresses().end()));
  if (!target.ok()) {
    errors->Add(absl::StrCat(field, ".addresses"), std::string(target.status().message()));
  }
}

void CheckAddress(absl::string_view field, absl::string_view address, bool may_choose,
                  status::FieldErrors* errors) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < (may_choose ? 0 : 1) ||
      port > 65535) {
    errors->Add(field, absl::StrCat("is '", address, "'; expected `host:port`",
                                    may_choose ? ", port 0 for a free one" : ""));
  }
}

void CheckDuration(absl::string_view field, bool present, const google::protobuf::Duration& value,
                   absl::Duration least, absl::Duration most, status::FieldErrors* errors) {
  if (!present) return;
  const absl::Duration duration = ToDuration(value);
  if (duration >= least && duration <= most) return;
  errors->Add(field, absl::StrCat("is ", absl::FormatDuration(duration), "; expected ",
                                  absl::FormatDuration(least), " to ", absl::FormatDuration(most)));
}

void CheckNumber(absl::string_view field, bool present, int64_t value, int64_t least, int64_t most,
                 absl::string_view unit, status::FieldErrors* errors) {
  if (!present || (value >= least && value <= most)) return;
  errors->Add(field, absl::StrCat("is ", value, unit, "; expected ", least, " to ", most));
}

void CheckAccessLog(absl::string_view field, const config::v1::AccessLog& config,
                    status::FieldErrors* errors) {
  const int lines = config.max_lines_per_second();
  if (lines < 0 || lines > kMostLinesPerSecond) {
    errors->Add(absl::StrCat(field, ".max_lines_per_second"),
                absl::StrCat("is ", lines, "; expected 1 to ", kMostLinesPerSecond));
  }
}

void CheckTraces(absl::string_view field, const config::v1::Traces& config,
                 status::FieldErrors* errors) {
  if (config.has_ratio()) CheckRatio(absl::StrCat(field, ".ratio"), config.ratio(), errors);
  CheckRatio(absl::StrCat(field, ".background_ratio"), config.background_ratio(), errors);
  if (config.otlp_address().empty()) return;
  const std::string address = absl::StrCat(field, ".otlp_address");
  CheckAddress(address, config.otlp_address(), false, errors);
  if (!config.ca_file().empty()) {
    CheckFile(absl::StrCat(field, ".ca_file"), config.ca_file(), errors);
  } else if (!address::IsLoopback(config.otlp_address())) {
    errors->Add(absl::StrCat(field, ".ca_file"),
                absl::StrCat("is needed, since '", config.otlp_address(),
                             "' is not on this machine and spans name Jobs; expected the PEM file "
                             "of the authority of its certificate"));
  }
}

void CheckAbsolutePath(absl::string_view field, absl::string_view path,
                       status::FieldErrors* errors) {
  if (path.empty() || path.front() != '/' || absl::StrContains(absl::StrCat(path, "/"), "/../")) {
    errors->Add(field, absl::StrCat("is '", path, "'; expected an absolute path without `..`"));
  }
}

void CheckExistingFolder(absl::string_view field, absl::string_view path,
                         status::FieldErrors* errors) {
  struct stat found = {};
  if (path.empty() || path.front() != '/' || stat(std::string(path).c_str(), &found) != 0 ||
      !S_ISDIR(found.st_mode)) {
    errors->Add(field, absl::StrCat("is `", path, "`; expected the absolute path of a folder"));
  }
}

}  // namespace capstan::process
