#include "integration/loading/loading_site.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "libs/content/manifest.h"
#include "libs/digest/sha256.h"
#include "libs/random/random.h"
#include "libs/safe_path/folder_names.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;
namespace pb = ::capstan::dataloader::v1;

constexpr int64_t kJournalRecord = 16;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::unique_ptr<testenv::ServerProcess> MustStart(const std::vector<std::string>& command,
                                                  const std::string& log) {
  auto started = testenv::ServerProcess::Start(command, log);
  if (!started.ok()) {
    ADD_FAILURE() << started.status();
    return nullptr;
  }
  const absl::Status ready = (*started)->WaitReady(absl::Seconds(60));
  EXPECT_TRUE(ready.ok()) << ready;
  return *std::move(started);
}

// Hex of the digest by which a version of these files is named.
std::string DigestOf(const Files& files) {
  pb::Manifest manifest;
  for (const auto& [path, bytes] : files) {
    pb::Manifest::File& file = *manifest.add_files();
    file.set_path(path);
    file.set_size_bytes(static_cast<int64_t>(bytes.size()));
    file.set_sha256(Sha256::Of(bytes));
  }
  return content::DigestHex(content::ManifestDigest(manifest)).value();
}

}  // namespace

LoadingSite::LoadingSite(absl::string_view site_size)
    : port_(testenv::LoopbackPort::Take().value()), mounted_(!site_size.empty()) {
  for (const char* name : {"/served", "/work", "/bucket", "/outside"}) {
    fs::create_directories(own_.path() + name);
  }
  server_ =
      MustStart({"/usr/bin/python3", fs::absolute("integration/loading/fault_server.py"),
                 own_.path() + "/served", absl::StrCat(port_.number()), own_.path() + "/work"},
                own_.path() + "/server.log");
  platform_ = std::make_unique<TestPlatform>(
      absl::StrCat("data_loader:\n  allowed_source_roots: ['", bucket(),
                   "']\n  http:\n    allowed_url_prefixes: ['", web(),
                   "']\n    allowed_addresses: ['127.0.0.1']\n    idle_timeout: 1s\n"));
  if (mounted_) {
    fs::create_directories(site());
    for (std::string at = site(); at.size() > platform_->folder().size();
         at = fs::path(at).parent_path()) {
      chmod(at.c_str(), 0755);
    }
    const std::string options = absl::StrCat("mode=0755,size=", site_size);
    EXPECT_EQ(mount("tmpfs", site().c_str(), "tmpfs", 0, options.c_str()), 0);
  }
  platform_->Up();
  EXPECT_TRUE(platform_->AwaitReady());
  reader_ = MustStart({"/usr/bin/python3", fs::absolute("integration/loading/version_reader.py"),
                       site() + "/versions", own_.path() + "/reader.log"},
                      own_.path() + "/reader.err");
}

LoadingSite::~LoadingSite() {
  // Of loads that failed nothing is left.
  EXPECT_TRUE(platform_->Await([&] { return Staged().empty(); }));
  // The last look is later than the last load.
  const size_t before = FolderNames(site() + "/versions").size() / 2;
  const auto seen = [&] {
    std::vector<std::string> digests;
    for (const absl::string_view line :
         absl::StrSplit(ReadFile(own_.path() + "/reader.log"), '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      if (words[0] != "seen") {
        ADD_FAILURE() << line;
        continue;
      }
      digests.push_back(words[1]);
    }
    return digests;
  };
  EXPECT_TRUE(platform_->Await([&] { return seen().size() >= before; }));
  for (const std::string& digest : seen()) {
    EXPECT_NE(std::find(expected_.begin(), expected_.end(), digest), expected_.end())
        << "a version that nobody loads: " << digest;
  }
  EXPECT_EQ(ReadFile(own_.path() + "/reader.err"), "");
  reader_ = nullptr;
  platform_->Down();
  if (mounted_) {
    EXPECT_EQ(umount2(site().c_str(), MNT_DETACH), 0);
  }
}

std::string LoadingSite::web() const {
  return absl::StrCat("http://127.0.0.1:", port_.number(), "/");
}

std::string LoadingSite::Bytes(size_t size, uint64_t seed) {
  Random random(seed);
  std::string bytes(size, '\0');
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t next = random.Next();
    bytes.replace(at, std::min(sizeof(next), size - at), reinterpret_cast<const char*>(&next),
                  std::min(sizeof(next), size - at));
  }
  return bytes;
}

void LoadingSite::Serve(const std::string& path, const std::string& bytes) {
  const fs::path file = own_.path() + "/served/" + path;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

void LoadingSite::SetFault(const std::string& path, const std::string& fault) {
  faults_.erase(path);
  if (!fault.empty()) faults_[path] = fault;
  std::string text;
  for (const auto& [name, what] : faults_) {
    absl::StrAppend(&text, text.empty() ? "{" : ", ", "\"", name, "\": ", what);
  }
  const std::string file = own_.path() + "/work/faults.json";
  std::ofstream(file + ".new") << (text.empty() ? "{" : text) << "}";
  fs::rename(file + ".new", file);
}

int64_t LoadingSite::Served(const std::string& path) const {
  int64_t total = 0;
  for (const absl::string_view line :
       absl::StrSplit(ReadFile(own_.path() + "/work/served.log"), '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t bytes = 0;
    if (words.size() == 4 && words[0] == path && absl::SimpleAtoi(words[3], &bytes)) total += bytes;
  }
  return total;
}

void LoadingSite::Expect(const Files& files) { expected_.push_back(DigestOf(files)); }

CommandResult LoadingSite::Create(const std::string& dataset, const std::string& source,
                                  const std::vector<std::string>& objects) {
  std::vector<std::string> words = {"dataset", "create", dataset, "--source", source};
  for (const std::string& object : objects) words.push_back("--object=" + object);
  return platform_->Capstan(words);
}

std::string LoadingSite::Start(const std::string& dataset, bool again) {
  std::vector<std::string> words = {"load", "start", dataset, "-o", "json"};
  if (again) words.push_back("--retry-failed");
  pb::DataLoad load;
  const CommandResult started = platform_->Capstan(words);
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(started.out, &load).ok())
      << started.out << started.err;
  return load.name().substr(load.name().rfind('/') + 1);
}

std::string LoadingSite::StartNew(const std::string& dataset, const std::string& source,
                                  const std::vector<std::string>& objects) {
  const CommandResult created = Create(dataset, source, objects);
  EXPECT_EQ(created.exit_code, 0) << created.err;
  return Start(dataset);
}

pb::DataLoad LoadingSite::Get(const std::string& load) {
  pb::DataLoad found;
  const CommandResult got = platform_->Capstan({"load", "get", load, "-o", "json"});
  // A data_loader that was killed is away for a moment.
  if (got.exit_code == 0) {
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(got.out, &found).ok()) << got.out;
  }
  return found;
}

pb::DataLoad LoadingSite::Await(const std::string& load) {
  pb::DataLoad now;
  EXPECT_TRUE(platform_->Await([&] {
    now = Get(load);
    return now.state() == pb::DataLoad::STATE_SUCCEEDED ||
           now.state() == pb::DataLoad::STATE_FAILED;
  })) << now.DebugString();
  return now;
}

int64_t LoadingSite::PartsKept(const std::string& load) const {
  struct stat info = {};
  const std::string journal = absl::StrCat(site(), "/staging/loads/", load, "/parts.journal");
  return stat(journal.c_str(), &info) == 0 ? info.st_size / kJournalRecord : 0;
}

bool LoadingSite::Has(const Files& files) const {
  const std::string folder = absl::StrCat(site(), "/versions/", DigestOf(files));
  return std::all_of(files.begin(), files.end(), [&](const auto& file) {
    return ReadFile(absl::StrCat(folder, "/", file.first)) == file.second;
  });
}

std::vector<std::string> LoadingSite::Staged() const {
  return FolderNames(site() + "/staging/loads");
}

}  // namespace capstan::integration
