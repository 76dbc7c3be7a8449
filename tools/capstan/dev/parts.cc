#include "tools/capstan/dev/parts.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"

namespace capstan::dev {

const std::vector<PartSpec>& AllParts() {
  static const auto* const kParts = new std::vector<PartSpec>{
      {kCredentials, "/svc/credentials", true},          {"telemetry", "/svc/telemetry", true},
      {"data_loader", "/svc/data_loader", true},         {"scheduler", "/svc/scheduler", true},
      {"cluster_manager", "/svc/cluster_manager", true}, {"executor", "/executor/local", true},
      {kNodeAgent, "/node/local/node-0", false},
  };
  return *kParts;
}

const PartSpec* FindPart(absl::string_view name) {
  for (const PartSpec& part : AllParts()) {
    if (name == part.name) return &part;
  }
  return nullptr;
}

std::string PartFolder(const std::string& data_dir, absl::string_view part) {
  return absl::StrCat(data_dir, "/", part);
}

std::string IdentityFolder(const std::string& data_dir, absl::string_view part) {
  return absl::StrCat(data_dir, "/", part, "/identity");
}

std::string RunFolder(const std::string& data_dir) { return absl::StrCat(data_dir, "/run"); }

std::string LogFolder(const std::string& data_dir) { return absl::StrCat(data_dir, "/log"); }

std::string PidFile(const std::string& data_dir, absl::string_view part) {
  return absl::StrCat(RunFolder(data_dir), "/", part, ".pid");
}

std::string PersonSocket(const std::string& data_dir) {
  return absl::StrCat(RunFolder(data_dir), "/person.sock");
}

std::string CgroupName(const std::string& data_dir) {
  return absl::StrCat("capstan-", absl::BytesToHexString(Sha256::Of(data_dir)).substr(0, 8));
}

}  // namespace capstan::dev
