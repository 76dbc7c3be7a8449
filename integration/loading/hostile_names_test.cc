// Names that lead out, meet, or hide, in indexes, in requests and in folders; links that come and
// go while they are read; and names that are merely odd, which are loaded as they are.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/loading/loading_site.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;
namespace pb = ::capstan::dataloader::v1;

class HostileNamesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    site_ = new LoadingSite();
    fs::create_directories(site_->outside());
    Write(site_->outside() + "/data", kOutside);
  }
  static void TearDownTestSuite() {
    delete site_;
    site_ = nullptr;
  }
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
  }

  static void Write(const std::string& path, const std::string& bytes) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // A folder of the bucket, and the source that it is.
  static std::string Folder(const std::string& name) {
    fs::create_directories(site_->bucket() + "/" + name);
    return site_->bucket() + "/" + name;
  }
  static std::string NewId() {
    static int number = 0;
    return absl::StrCat("d", ++number);
  }
  static pb::DataLoad Load(const std::string& source) {
    return site_->Await(site_->StartNew(NewId(), source));
  }

  static constexpr char kOutside[] = "nobody's but the machine's";
  static LoadingSite* site_;
};

LoadingSite* HostileNamesTest::site_ = nullptr;

TEST_F(HostileNamesTest, AnIndexThatNamesThemFailsTheLoad) {
  site_->Serve("good", "abc");
  const std::string url = site_->web();
  const std::map<std::string, std::string> indexes = {
      {"dot-dot", "../good 3 -"},
      {"dot-dot-within", "a/../../good 3 -"},
      {"dot-dot-encoded", url + "%2e%2e/%2e%2e/good"},
      {"dot-dot-encoded-slash", url + "..%2fgood"},
      {"absolute", "/etc/passwd 3 -"},
      {"absolute-encoded", url + "%2fetc%2fpasswd"},
      {"file-url", "file:///etc/passwd"},
      {"dot", "./good 3 -"},
      {"double-slash", "a//good 3 -"},
      {"trailing-slash", "good/ 3 -"},
      {"backslash", "a\\good 3 -"},
      {"control-byte", url + "go%01od"},
      {"newline", url + "go%0aod"},
      {"escape", url + "%1b%5b2Jgood"},
      {"nul", url + "good%00.txt"},
      {"not-utf-8", url + "good%ff"},
      {"case-twins", "Good 3 -\ngood 3 -"},
      {"folder-case-twins", "A/x 3 -\na/y 3 -\na/X 3 -"},
      {"unicode-twins", "caf\xc3\xa9 3 -\ncafe\xcc\x81 3 -"},
      {"compatible-twins", "\xef\xac\x81le 3 -\nfile 3 -"},
      {"invisible-twins", "go\xe2\x80\x8bod 3 -\ngood 3 -"},
      {"same-twice", "good 3 -\ngood 3 -"},
      {"file-and-folder", "good 3 -\ngood/good 3 -"},
      {"1025-bytes", std::string(204, 'a') + "/" + std::string(204, 'a') + "/" +
                         std::string(204, 'a') + "/" + std::string(204, 'a') + "/" +
                         std::string(205, 'a') + " 3 -"},
      {"256-bytes-in-one", std::string(256, 'a') + " 3 -"},
  };
  for (const auto& [name, index] : indexes) {
    SCOPED_TRACE(name);
    site_->Serve(name + ".index", index + "\n");
    const pb::DataLoad load = Load(absl::StrCat(url, name, ".index"));
    EXPECT_EQ(load.state(), pb::DataLoad::STATE_FAILED);
    EXPECT_TRUE(load.reason() == "INVALID_INDEX" || load.reason() == "UNSAFE_PATH")
        << load.reason() << ": " << load.message();
    // The line, or the names.
    EXPECT_TRUE(absl::StrContains(load.message(), "line 1") ||
                absl::StrContains(load.message(), "'"))
        << load.message();
    for (const char c : load.message()) EXPECT_GE(static_cast<unsigned char>(c), ' ');
  }
  EXPECT_TRUE(site_->platform().Await([] { return site_->Staged().empty(); }));
}

TEST_F(HostileNamesTest, ARequestThatNamesThemIsRefused) {
  const std::vector<std::vector<std::string>> requests = {{"../good"},
                                                          {"/etc/passwd"},
                                                          {"a//b"},
                                                          {"a/./b"},
                                                          {"a\\b"},
                                                          {"a\nb"},
                                                          {"a\x1b[2J"},
                                                          {"Good", "good"},
                                                          {"a", "a/b"},
                                                          {std::string(1025, 'a')},
                                                          {std::string(256, 'a')}};
  for (const std::vector<std::string>& objects : requests) {
    const CommandResult refused = site_->Create(NewId(), site_->web(), objects);
    EXPECT_EQ(refused.exit_code, 3) << objects.front() << "\n" << refused.err;
    EXPECT_TRUE(absl::StrContains(refused.err, "dataset.objects")) << refused.err;
  }
  // Not even a text of protobuf's.
  EXPECT_NE(site_->Create(NewId(), site_->web(), {"\xff"}).exit_code, 0);
}

TEST_F(HostileNamesTest, AFolderThatHoldsThemFailsTheLoad) {
  const auto fails = [&](const std::string& folder, const std::string& reason) {
    const pb::DataLoad load = Load("file://" + site_->bucket() + "/" + folder + "/");
    EXPECT_EQ(load.state(), pb::DataLoad::STATE_FAILED) << folder;
    EXPECT_EQ(load.reason(), reason) << folder << ": " << load.message();
  };
  fs::create_symlink("../../outside/data", Folder("link") + "/data");
  fails("link", "NOT_A_REGULAR_FILE");
  fs::create_directory_symlink("../../outside", Folder("folder-link") + "/d");
  fails("folder-link", "NOT_A_REGULAR_FILE");
  EXPECT_EQ(mkfifo((Folder("fifo") + "/data").c_str(), 0644), 0);
  fails("fifo", "NOT_A_REGULAR_FILE");
  EXPECT_EQ(mknod((Folder("device") + "/zero").c_str(), S_IFCHR | 0644, makedev(1, 5)), 0);
  fails("device", "NOT_A_REGULAR_FILE");
  Write(Folder("control") + "/a\x01", "abc");
  fails("control", "UNSAFE_PATH");
  Write(Folder("twins") + "/Data", "abc");
  Write(Folder("twins") + "/data", "abd");
  fails("twins", "UNSAFE_PATH");
  Write(Folder("accents") + "/caf\xc3\xa9", "abc");
  Write(Folder("accents") + "/cafe\xcc\x81", "abd");
  fails("accents", "UNSAFE_PATH");
  Write(Folder("bytes") + "/\xff\xfe", "abc");
  fails("bytes", "UNSAFE_PATH");
}

TEST_F(HostileNamesTest, ASourceThatIsALinkOutIsNotRead) {
  fs::create_directory_symlink(site_->outside(), site_->bucket() + "/out");
  for (const std::string& source :
       {"file://" + site_->bucket() + "/out/", "file://" + site_->bucket() + "/out/data",
        "file://" + site_->outside() + "/"}) {
    const pb::DataLoad load = Load(source);
    EXPECT_EQ(load.state(), pb::DataLoad::STATE_FAILED) << source;
    std::printf("%s: %s\n", load.reason().c_str(), load.message().c_str());
    EXPECT_NE(load.reason(), "") << load.message();
  }
}

// A folder and a link to elsewhere change places as fast as they can while loads read below.
TEST_F(HostileNamesTest, LinksThatComeAndGoLeadNowhere) {
  const std::string inside(100'000, 'i');
  const std::string race = Folder("race");
  Write(race + "/d/data", inside);
  Write(race + "/f", inside);
  const std::string spare = site_->outside() + "/spare";
  fs::create_directories(spare);
  fs::create_directory_symlink(site_->outside(), spare + "/d");
  fs::create_symlink(site_->outside() + "/data", spare + "/f");
  site_->Expect({{"d/data", inside}});
  site_->Expect({{"f", inside}});
  // A link, or what has come back after one.
  const std::set<std::string> reasons = {"NOT_A_REGULAR_FILE", "UNSAFE_PATH", "SOURCE_CHANGED",
                                         "OBJECT_NOT_FOUND"};
  std::atomic<bool> over = false;
  std::atomic<int64_t> turns = 0;
  std::thread changer([&] {
    while (!over) {
      for (const char* name : {"/d", "/f"}) {
        syscall(SYS_renameat2, AT_FDCWD, (race + name).c_str(), AT_FDCWD, (spare + name).c_str(),
                RENAME_EXCHANGE);
      }
      ++turns;
    }
  });
  // By how it ended; and which version it made of what.
  std::map<std::string, int> ends;
  std::map<std::string, std::string> versions;
  int succeeded = 0;
  int refused = 0;
  // Until it has gone both ways, which chance decides.
  constexpr int kLoads = 24;
  constexpr int kMostLoads = 240;
  for (int i = 0; i < kLoads || ((succeeded == 0 || refused == 0) && i < kMostLoads); ++i) {
    const std::string object = i % 2 == 0 ? "d/data" : "f";
    const pb::DataLoad load =
        site_->Await(site_->StartNew(NewId(), "file://" + race + "/", {object}));
    if (load.state() == pb::DataLoad::STATE_SUCCEEDED) {
      ++succeeded;
      ++ends["SUCCEEDED"];
      EXPECT_TRUE(site_->Has({{object, inside}})) << object << " is not what is inside";
      const std::string digest = load.version().substr(load.version().rfind('/'));
      EXPECT_EQ(versions.emplace(object, digest).first->second, digest) << "of other content";
      continue;
    }
    ++refused;
    ++ends[load.reason()];
    EXPECT_EQ(load.state(), pb::DataLoad::STATE_FAILED);
    EXPECT_EQ(reasons.count(load.reason()), 1u) << load.reason() << ": " << load.message();
    EXPECT_TRUE(absl::StrContains(load.message(), object + "'")) << load.message();
    EXPECT_EQ(load.version(), "");
  }
  over = true;
  changer.join();
  for (const auto& [end, count] : ends) std::printf("%s: %d\n", end.c_str(), count);
  std::printf("%d turns\n", static_cast<int>(turns));
  EXPECT_GT(turns, 1000);
  EXPECT_GT(succeeded, 0);
  EXPECT_GT(refused, 0);
}

// A file whose content changes in place, its time put back, or that is replaced: each version that
// comes of it is the one or the other.
TEST_F(HostileNamesTest, AFileThatIsChangedWhileItIsReadIsNeverMixed) {
  const std::string one = LoadingSite::Bytes(3 * kPartBytes, 1);
  const std::string two = LoadingSite::Bytes(3 * kPartBytes, 2);
  const std::string folder = Folder("changing");
  Write(folder + "/data", one);
  site_->Expect({{"data", one}});
  site_->Expect({{"data", two}});
  std::atomic<bool> over = false;
  std::thread changer([&] {
    for (int turn = 0; !over; ++turn) {
      const std::string& next = turn % 2 == 0 ? two : one;
      if (turn % 4 < 2) {
        struct stat before = {};
        stat((folder + "/data").c_str(), &before);
        {
          std::fstream file(folder + "/data", std::ios::in | std::ios::out | std::ios::binary);
          file << next;
        }
        const timespec times[2] = {before.st_atim, before.st_mtim};
        utimensat(AT_FDCWD, (folder + "/data").c_str(), times, 0);
      } else {
        Write(site_->outside() + "/next", next);
        fs::rename(site_->outside() + "/next", folder + "/data");
      }
    }
  });
  std::map<std::string, int> ends;
  for (int i = 0; i < 8; ++i) {
    const pb::DataLoad load = Load("file://" + folder + "/");
    ++ends[load.state() == pb::DataLoad::STATE_SUCCEEDED ? "SUCCEEDED" : load.reason()];
  }
  over = true;
  changer.join();
  for (const auto& [end, count] : ends) std::printf("%s: %d\n", end.c_str(), count);
  EXPECT_EQ(ends.count("DIGEST_MISMATCH"), 0u);
  // It is quiet now.
  const pb::DataLoad quiet = Load("file://" + folder + "/");
  EXPECT_EQ(quiet.state(), pb::DataLoad::STATE_SUCCEEDED) << quiet.message();
}

TEST_F(HostileNamesTest, OddNamesAreLoadedAsTheyAre) {
  const std::string longest = std::string(255, 'a') + "/" + std::string(255, 'b') + "/" +
                              std::string(255, 'c') + "/" + std::string(254, 'd') + "/e";
  ASSERT_EQ(longest.size(), 1024u);
  Files files;
  for (const std::string& name :
       {longest, std::string("a b"), std::string("100%"), std::string("a#b"), std::string("a?b=c"),
        std::string("-rf"), std::string("~"), std::string("a'b\"c"), std::string("caf\xc3\xa9"),
        std::string("\xe6\x97\xa5\xe6\x9c\xac"), std::string("..."), std::string(".hidden"),
        std::string("a:b"), std::string("$(id)"), std::string("index.html"),
        std::string(255, 'z')}) {
    files[name] = "content of " + name;
    site_->Serve("odd/" + name, files[name]);
    Write(Folder("odd") + "/" + name, files[name]);
  }
  site_->Expect(files);
  std::vector<std::string> objects;
  for (const auto& [name, bytes] : files) objects.push_back(name);
  const pb::DataLoad web = site_->Await(site_->StartNew(NewId(), site_->web() + "odd/", objects));
  EXPECT_EQ(web.state(), pb::DataLoad::STATE_SUCCEEDED) << web.message();
  EXPECT_TRUE(site_->Has(files));
  const pb::DataLoad folder = Load("file://" + site_->bucket() + "/odd/");
  EXPECT_EQ(folder.state(), pb::DataLoad::STATE_SUCCEEDED) << folder.message();
  EXPECT_EQ(folder.version().substr(folder.version().rfind('/')),
            web.version().substr(web.version().rfind('/')))
      << "equal content is one version";
}

}  // namespace
}  // namespace capstan::integration
