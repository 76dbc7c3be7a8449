#include "integration/crash/leftover_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kSite = "data_loader/site/";
constexpr absl::string_view kStreams = "telemetry/streams/";
constexpr absl::string_view kManifest = ".manifest";
constexpr size_t kDigestDigits = 64;
constexpr size_t kUidLetters = 36;

constexpr absl::string_view kParts[] = {"credentials",     "telemetry", "data_loader", "scheduler",
                                        "cluster_manager", "executor",  "node_agent"};

// In the folder of each; a star never stands for a leading dot, which temporary files have.
constexpr const char* kOfEachPart[] = {
    "config.yaml",
    "deny_list",
    "identity",
    "identity/bundle.pem",
    "identity/svid.pem",
    "store.sqlite",
    "store.sqlite-shm",
    "store.sqlite-wal",
    "store.sqlite.lock",
    "audit.chain",
    "audit.chain.torn-[0-9]*",
};

constexpr const char* kOthers[] = {
    "config.yaml",
    "endpoints.json",
    "lock",
    "run",
    "run/[a-z]*.pid",
    "run/person.sock",
    "person",
    "person/bundle.pem",
    "person/svid.pem",
    "log",
    // A Dataset's sources, which are the test's own.
    "buckets",
    "credentials/key_keeper.key",
    "scheduler/recordings",
    "scheduler/recordings/[0-9]*-epoch-[0-9]*.recording",
    "telemetry/scrape_targets",
    "telemetry/streams",
    "telemetry/streams/.lock",
    "telemetry/streams/small.sqlite",
    "telemetry/streams/small.sqlite-shm",
    "telemetry/streams/small.sqlite-wal",
    "node_agent/preflight",
    "node_agent/tasks",
    "node_agent/trash",
    "node_agent/workload",
    "node_agent/workload/api.sock",
    "data_loader/site",
    "data_loader/site/staging",
    "data_loader/site/staging/loads",
    "data_loader/site/staging/bundles",
    "data_loader/site/staging/outputs",
    "data_loader/site/staging/evicted",
    "data_loader/site/versions",
    "data_loader/site/bundles",
    "data_loader/site/outputs",
};

constexpr const char* kDatabases[] = {"archive.sqlite", "subscriptions.sqlite"};
constexpr const char* kOfADatabase[] = {"", "-shm", "-wal", ".lock"};

bool Matches(const std::string& path, const char* pattern) {
  return fnmatch(pattern, path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

template <size_t kSize>
bool MatchesOneOf(const std::string& path, const char* const (&patterns)[kSize]) {
  return std::any_of(std::begin(patterns), std::end(patterns),
                     [&](const char* pattern) { return Matches(path, pattern); });
}

bool IsHex(absl::string_view text, absl::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f') ||
           absl::StrContains(others, c);
  });
}

// What is in versions, bundles and outputs of a Site: content, what is in it, and its manifest.
struct OfSite {
  // Content or its manifest, not below it.
  bool is_content = false;
  bool belongs = false;
};

OfSite LookAtSite(absl::string_view path) {
  const std::vector<absl::string_view> names = absl::StrSplit(path, '/');
  size_t at = 1;
  bool good_name = false;
  if (names[0] == "outputs" && names.size() > 1) {
    const bool good_job = names[1].size() == kUidLetters && IsHex(names[1], "-");
    if (names.size() == 2) return {false, good_job};
    at = 2;
    const std::string name(names[at]);
    // Where Tasks of the newest generation have staged theirs.
    if (Matches(name, "staging-[0-9]*")) return {false, good_job && names.size() == 3};
    good_name = good_job && Matches(name, "g[0-9]*-r[0-9]*-*");
  } else if ((names[0] == "versions" || names[0] == "bundles") && names.size() > 1) {
    absl::string_view digest = names[at];
    if (names.size() == 2) absl::ConsumeSuffix(&digest, kManifest);
    good_name = digest.size() == kDigestDigits && IsHex(digest, "");
  }
  return {good_name && names.size() == at + 1, good_name};
}

bool BelongsToStreams(absl::string_view path) {
  const std::string name(path.substr(path.rfind('/') + 1));
  // Folders and the files `synced` and `dropped` have none.
  return !absl::StrContains(name, '.') || Matches(name, "[0-9]*.seg") ||
         Matches(name, "[0-9]*.seg.torn");
}

}  // namespace

bool BelongsToPlatform(absl::string_view path) {
  const std::string name(path);
  if (MatchesOneOf(name, kOthers)) return true;
  if (absl::StartsWith(path, "log/") || absl::StartsWith(path, "buckets/")) return true;
  for (const absl::string_view part : kParts) {
    absl::string_view inner = path;
    if (!absl::ConsumePrefix(&inner, part)) continue;
    if (inner.empty()) return true;
    if (absl::ConsumePrefix(&inner, "/") && MatchesOneOf(std::string(inner), kOfEachPart)) {
      return true;
    }
  }
  for (const char* database : kDatabases) {
    for (const char* suffix : kOfADatabase) {
      if (name == absl::StrCat("telemetry/", database, suffix)) return true;
    }
  }
  absl::string_view inner = path;
  if (absl::ConsumePrefix(&inner, kSite)) return LookAtSite(inner).belongs;
  return absl::ConsumePrefix(&inner, kStreams) && BelongsToStreams(inner);
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
      continue;
    }
    absl::string_view content = path;
    if (absl::ConsumePrefix(&content, kSite) && LookAtSite(content).is_content) {
      content = path;
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
