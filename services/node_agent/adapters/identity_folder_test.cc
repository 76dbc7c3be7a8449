#include "services/node_agent/adapters/identity_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::node_agent {
namespace {

class IdentityFolderTest : public testing::Test {
 protected:
  IdentityFolderTest() {
    folder_ = testing::TempDir() + "/identityXXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~IdentityFolderTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Replace(const std::string& name, int64_t unix_uid = 0) const {
    return ReplaceIdentity(folder_, name,
                           {{.name = "svid.pem", .bytes = "chain " + name},
                            {.name = "svid_key.pem", .bytes = "key " + name, .secret = true}},
                           unix_uid);
  }
  static std::string Read(int folder, const std::string& name) {
    UniqueFd fd(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC));
    return fd.valid() ? ReadAll(fd.get(), 1000, name).value() : "(none)";
  }
  UniqueFd OpenCurrent() const {
    return UniqueFd(open((folder_ + "/current").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  std::set<std::string> Entries() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  std::string folder_;
};

TEST_F(IdentityFolderTest, OnlyTheOwnerReadsTheKey) {
  const mode_t before = umask(0077);
  ASSERT_TRUE(Replace("a").ok());
  umask(before);
  struct stat st;
  ASSERT_EQ(stat((folder_ + "/current/svid_key.pem").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0400u);
  ASSERT_EQ(stat((folder_ + "/current/svid.pem").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0444u);
  ASSERT_EQ(stat((folder_ + "/current").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0755u);
}

TEST_F(IdentityFolderTest, TheKeyIsTheJobsUids) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(Replace("a", 61234).ok());
  struct stat st;
  ASSERT_EQ(stat((folder_ + "/current/svid_key.pem").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 61234u);
  EXPECT_EQ(st.st_mode & 07777, 0400u);
}

TEST_F(IdentityFolderTest, WhoHasOpenedTheLinkReadsOneSet) {
  ASSERT_TRUE(Replace("a").ok());
  const UniqueFd opened = OpenCurrent();
  EXPECT_EQ(Read(opened.get(), "svid.pem"), "chain a");
  ASSERT_TRUE(Replace("b").ok());
  EXPECT_EQ(Read(opened.get(), "svid_key.pem"), "key a");
  const UniqueFd anew = OpenCurrent();
  EXPECT_EQ(Read(anew.get(), "svid.pem"), "chain b");
  EXPECT_EQ(Read(anew.get(), "svid_key.pem"), "key b");
}

TEST_F(IdentityFolderTest, TheSetBeforeStaysAndOlderOnesGo) {
  ASSERT_TRUE(Replace("a").ok());
  ASSERT_TRUE(Replace("b").ok());
  ASSERT_TRUE(Replace("c").ok());
  EXPECT_EQ(Entries(), (std::set<std::string>{"b", "c", "current"}));
}

TEST_F(IdentityFolderTest, WhatACrashLeftIsRemoved) {
  ASSERT_TRUE(Replace("a").ok());
  std::filesystem::create_directory(folder_ + "/half");
  std::filesystem::create_symlink("half", folder_ + "/half/svid_key.pem");
  std::filesystem::create_symlink("half", folder_ + "/next");
  ASSERT_TRUE(Replace("b").ok());
  EXPECT_EQ(Entries(), (std::set<std::string>{"a", "b", "current"}));
}

TEST_F(IdentityFolderTest, AFailureLeavesWhatWasThere) {
  ASSERT_TRUE(Replace("a").ok());
  // The same name again.
  EXPECT_FALSE(Replace("a").ok());
  const UniqueFd opened = OpenCurrent();
  EXPECT_EQ(Read(opened.get(), "svid_key.pem"), "key a");
  EXPECT_TRUE(absl::IsNotFound(ReplaceIdentity(folder_ + "/gone", "a", {}, 0)));
}

TEST_F(IdentityFolderTest, AReaderMeanwhileNeverSeesAMixedSet) {
  ASSERT_TRUE(Replace("0").ok());
  constexpr int kSets = 300;
  std::thread writer([this] {
    for (int i = 1; i <= kSets; ++i) EXPECT_TRUE(Replace(absl::StrCat(i)).ok());
  });
  std::string last;
  while (last != absl::StrCat("chain ", kSets)) {
    const UniqueFd opened = OpenCurrent();
    const std::string chain = Read(opened.get(), "svid.pem");
    const std::string key = Read(opened.get(), "svid_key.pem");
    // Two renewals within one read or one open: the set is gone, which is not a mixed one.
    if (chain == "(none)" || key == "(none)") continue;
    EXPECT_EQ(chain.substr(6), key.substr(4));
    last = chain;
  }
  writer.join();
}

}  // namespace
}  // namespace capstan::node_agent
