#include "integration/secrets/secret_scan.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "integration/platform/recording_text.h"
#include "integration/secrets/secret_forms.h"
#include "libs/safe_path/folder_names.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;

// Any 16 bytes of a secret hold one of its pieces whole.
constexpr size_t kFound = 16;
constexpr size_t kPiece = 12;
constexpr size_t kStep = 4;
constexpr size_t kKey = sizeof(uint64_t);
constexpr size_t kMaybe = 1 << 20;
constexpr size_t kChunk = 16 << 20;
// More than any piece is long in any form, with breaks.
constexpr size_t kOverlap = 4096;
// Of libs/segment_log, after length and checksum.
constexpr size_t kFrameKindAt = 8;
constexpr char kHeaderFrame = 2;

uint64_t KeyAt(const char* bytes) {
  uint64_t key;
  std::memcpy(&key, bytes, sizeof(key));
  return key;
}

size_t Slot(uint64_t key) { return key * 0x9E3779B97F4A7C15u >> 44; }

std::string ReadSmallFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  // Unlike iterators, this does not throw where a process ends while it is read.
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool Matches(const std::string& pattern, const std::string& place) {
  return fnmatch(pattern.c_str(), place.c_str(), 0) == 0;
}

// Whether others than its owner may open the file, coming from `root`.
bool IsOpenToOthers(const std::string& path, const std::string& root) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0 || (info.st_mode & (S_IRGRP | S_IROTH)) == 0) return false;
  for (fs::path folder = fs::path(path).parent_path();
       folder.string().size() >= root.size() && folder.has_relative_path();
       folder = folder.parent_path()) {
    if (stat(folder.c_str(), &info) != 0 || (info.st_mode & (S_IXGRP | S_IXOTH)) == 0) {
      return false;
    }
  }
  return true;
}

// All values of all tables.
class SqliteFile {
 public:
  explicit SqliteFile(const std::string& path) {
    sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE, nullptr);
  }
  ~SqliteFile() { sqlite3_close(db_); }

  template <typename Each>
  void ForEach(const std::string& sql, Each each) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      for (int i = 0; i < sqlite3_column_count(statement); ++i) {
        const void* bytes = sqlite3_column_blob(statement, i);
        const size_t size = static_cast<size_t>(sqlite3_column_bytes(statement, i));
        if (bytes != nullptr) each(std::string(static_cast<const char*>(bytes), size));
      }
    }
    sqlite3_finalize(statement);
  }

 private:
  sqlite3* db_ = nullptr;
};

}  // namespace

void SecretScan::Add(Secret secret) {
  ASSERT_GE(secret.value.size(), kFound) << secret.name;
  if (maybe_.empty()) maybe_.resize(kMaybe);
  const size_t number = secrets_.size();
  const std::string value = secret.value;
  secrets_.push_back(std::move(secret));
  for (size_t at = 0;; at = std::min(at + kStep, value.size() - kPiece)) {
    for (WrittenForm& form : FormsOf(absl::string_view(value).substr(at, kPiece))) {
      AddNeedles(number, form.form, std::move(form.text));
    }
    if (at + kPiece == value.size()) return;
  }
}

void SecretScan::AddNeedles(size_t secret, const char* form, std::string text) {
  const uint64_t key = KeyAt(text.data());
  std::vector<size_t>& others = index_[key];
  for (const size_t other : others) {
    if (needles_[other].text == text && needles_[other].secret == secret) return;
  }
  maybe_[Slot(key)] = true;
  others.push_back(needles_.size());
  needles_.push_back({std::move(text), secret, form});
}

void SecretScan::Find(const std::string& place, absl::string_view bytes, bool open_to_others) {
  if (maybe_.empty() || bytes.size() < kKey) return;
  for (size_t i = 0; i + kKey <= bytes.size(); ++i) {
    const uint64_t key = KeyAt(bytes.data() + i);
    if (!maybe_[Slot(key)]) continue;
    const auto found = index_.find(key);
    if (found == index_.end()) continue;
    for (const size_t number : found->second) {
      const Needle& needle = needles_[number];
      if (!absl::StartsWith(bytes.substr(i), needle.text)) continue;
      const Secret& secret = secrets_[needle.secret];
      Sighting& sighting = sightings_[{needle.secret, place}];
      sighting.open_to_others |= open_to_others;
      if (!sighting.place.empty()) continue;
      sighting.secret = secret.name;
      sighting.place = place;
      sighting.form = needle.form;
      sighting.at_home = std::any_of(secret.homes.begin(), secret.homes.end(),
                                     [&](const std::string& home) { return Matches(home, place); });
    }
  }
}

void SecretScan::Look(const std::string& place, absl::string_view bytes, bool open_to_others) {
  ++places_;
  bytes_ += static_cast<int64_t>(bytes.size());
  Find(place, bytes, open_to_others);
  Find(place, WithoutBreaks(bytes), open_to_others);
}

void SecretScan::LookAtFile(const std::string& place, const std::string& path,
                            const std::string& root) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info = {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  const bool open_to_others = IsOpenToOthers(path, root);
  ++places_;
  std::string window;
  while (true) {
    const size_t kept = std::min(window.size(), kOverlap);
    window.erase(0, window.size() - kept);
    window.resize(kept + kChunk);
    const ssize_t got = read(fd.get(), window.data() + kept, kChunk);
    if (got <= 0) break;
    window.resize(kept + static_cast<size_t>(got));
    bytes_ += got;
    Find(place, window, open_to_others);
    Find(place, WithoutBreaks(window), open_to_others);
  }
  char magic[16] = {};
  if (pread(fd.get(), magic, sizeof(magic), 0) == sizeof(magic) &&
      std::memcmp(magic, "SQLite format 3", sizeof(magic)) == 0) {
    LookAtRows(place, path, open_to_others);
  }
  // The kind of its first frame: what cannot be a recording, as a core of hundreds of MiB, is not
  // read once more.
  if (magic[kFrameKindAt] != kHeaderFrame) return;
  const auto text = RecordingText(ReadSmallFile(absl::StrCat("/proc/self/fd/", fd.get())));
  if (!text.has_value()) return;
  Find(place, *text, open_to_others);
  Find(place, WithoutBreaks(*text), open_to_others);
}

void SecretScan::LookAtRows(const std::string& place, const std::string& path,
                            bool open_to_others) {
  // A copy: whoever has the file open must not notice.
  const TemporaryFolder folder;
  const std::string copy = folder.path() + "/copy";
  std::error_code ignored;
  fs::copy_file(path, copy, ignored);
  fs::copy_file(path + "-wal", copy + "-wal", ignored);
  SqliteFile file(copy);
  std::vector<std::string> tables;
  file.ForEach("SELECT name FROM sqlite_master WHERE type = 'table'",
               [&](std::string name) { tables.push_back(std::move(name)); });
  for (const std::string& table : tables) {
    file.ForEach(absl::StrCat("SELECT * FROM \"", table, "\""), [&](const std::string& value) {
      Find(place, value, open_to_others);
      Find(place, WithoutBreaks(value), open_to_others);
    });
  }
}

void SecretScan::LookAtFolder(const std::string& place, const std::string& folder) {
  LookBelow(place, folder, folder, "");
}

void SecretScan::LookBelow(const std::string& place, const std::string& root,
                           const std::string& folder, const std::string& below) {
  for (const std::string& name : FolderNames(folder)) {
    const std::string path = absl::StrCat(folder, "/", name);
    const std::string path_below = absl::StrCat(below, "/", name);
    Find(absl::StrCat(place, " (names)"), path_below, false);
    struct stat info = {};
    // Files and folders come and go meanwhile.
    if (lstat(path.c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      LookBelow(place, root, path, path_below);
    } else if (S_ISREG(info.st_mode)) {
      LookAtFile(place + path_below, path, root);
    } else if (S_ISLNK(info.st_mode)) {
      std::error_code gone;
      Find(place + path_below, fs::read_symlink(path, gone).string(), false);
    }
  }
}

void SecretScan::LookAtProcesses() {
  for (const std::string& name : FolderNames("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || pid == getpid()) continue;
    const std::string folder = "/proc/" + name;
    const std::string comm(absl::StripSuffix(ReadSmallFile(folder + "/comm"), "\n"));
    const std::string environment = ReadSmallFile(folder + "/environ");
    const bool is_task = absl::StrContains(environment, "CAPSTAN_JOB_UID=");
    Look(absl::StrCat("argv of ", comm), ReadSmallFile(folder + "/cmdline"));
    Look(absl::StrCat("environment of ", is_task ? "Task " : "", comm), environment);
  }
}

std::vector<Sighting> SecretScan::Sightings() const {
  std::vector<Sighting> all;
  for (const auto& [key, sighting] : sightings_) all.push_back(sighting);
  return all;
}

std::string SecretScan::Strays() const {
  std::string text;
  for (const Sighting& sighting : Sightings()) {
    if (sighting.at_home) continue;
    absl::StrAppend(&text, sighting.secret, ": in ", sighting.place, " (", sighting.form, ")\n");
  }
  return text;
}

std::string SecretScan::OpenHomes() const {
  std::string text;
  for (const Sighting& sighting : Sightings()) {
    if (!sighting.at_home || !sighting.open_to_others) continue;
    absl::StrAppend(&text, sighting.secret, ": in ", sighting.place, "\n");
  }
  return text;
}

bool SecretScan::Saw(const std::string& secret, const std::string& place_pattern) const {
  const std::vector<Sighting> all = Sightings();
  return std::any_of(all.begin(), all.end(), [&](const Sighting& sighting) {
    return sighting.secret == secret && Matches(place_pattern, sighting.place);
  });
}

}  // namespace capstan::integration
