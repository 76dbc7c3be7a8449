#include "integration/crash/leftover_files.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;

constexpr char kSite[] = "data_loader/site/";
constexpr absl::string_view kManifest = ".manifest";

// Of a path in the data folder; a Dataset's sources are the test's own.
constexpr const char* kPatterns[] = {
    "config.yaml|endpoints.json|lock|run|log|log/.*|buckets|buckets/.*",
    "run/[a-z_]+[.]pid|run/person[.]sock",
    "person|person/(bundle|svid)[.]pem",
    // Each part.
    "(credentials|telemetry|data_loader|scheduler|cluster_manager|executor|node_agent)"
    "(|/config[.]yaml|/deny_list|/identity|/identity/(bundle|svid)[.]pem"
    "|/store[.]sqlite(|-shm|-wal|[.]lock)|/audit[.]chain(|[.]torn-[0-9]+))",
    "credentials/key_keeper[.]key",
    "scheduler/recordings(|/[0-9TZ.]+-epoch-[0-9]+[.]recording)",
    "telemetry/(archive|subscriptions)[.]sqlite(|-shm|-wal|[.]lock)|telemetry/scrape_targets",
    "telemetry/streams(|/[.]lock|/small[.]sqlite(|-shm|-wal)|/[a-z0-9_/-]+(|/synced|/dropped|/"
    "[0-9]{20}[.]seg(|[.]torn)))",
    "node_agent/(preflight|tasks|trash|workload|workload/api[.]sock)",
    "data_loader/site(|/staging(|/loads|/bundles|/outputs|/evicted)|/versions|/bundles|/outputs)",
    // Whole content, and the manifest beside it.
    "data_loader/site/(versions|bundles)/[0-9a-f]{64}(|[.]manifest|/.*)",
    "data_loader/site/outputs/[0-9a-f-]{36}"
    "(|/staging-[0-9]+|/g[0-9]+-r[0-9]+-(s[0-9]+|final)-[0-9a-f]{8}(|[.]manifest|/.*))",
};

// Content and its manifest, which are there together.
bool IsContent(absl::string_view path) {
  static const std::regex* const content =
      new std::regex("data_loader/site/((versions|bundles)/[^/]+|outputs/[^/]+/g[^/]+)");
  return std::regex_match(path.begin(), path.end(), *content);
}

}  // namespace

bool BelongsToPlatform(absl::string_view path) {
  static const auto* const patterns =
      new std::vector<std::regex>(std::begin(kPatterns), std::end(kPatterns));
  return std::any_of(patterns->begin(), patterns->end(), [&](const std::regex& pattern) {
    return std::regex_match(path.begin(), path.end(), pattern);
  });
}

std::vector<std::string> LeftoverFiles(const std::string& data_dir) {
  std::set<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(data_dir, error), end; !error && it != end;
       it.increment(error)) {
    paths.insert(it->path().string().substr(data_dir.size() + 1));
  }
  std::vector<std::string> left;
  // Something has gone while it was looked at: what is left stays.
  if (error) left.push_back(absl::StrCat("cannot read ", data_dir, ": ", error.message()));
  const std::string versions = absl::StrCat(kSite, "versions/");
  int whole_versions = 0;
  for (const std::string& path : paths) {
    if (!BelongsToPlatform(path)) {
      left.push_back(path);
    } else if (IsContent(path)) {
      absl::string_view content = path;
      if (absl::ConsumeSuffix(&content, kManifest)) {
        if (paths.count(std::string(content)) == 0) left.push_back(path + " of no content");
        continue;
      }
      if (paths.count(absl::StrCat(path, kManifest)) == 0) left.push_back(path + " of no manifest");
      if (absl::StartsWith(path, versions)) ++whole_versions;
    }
  }
  // The limit of the Site holds one.
  if (whole_versions > 1) left.push_back(absl::StrCat(whole_versions, " Dataset versions"));
  return left;
}

}  // namespace capstan::integration
