#include "libs/safe_path/safe_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/safe_path/replace_file.h"
#include "libs/status/error.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

TEST(CheckRelativePathTest, TakesOrdinaryNames) {
  for (const char* path : {"a", "a/b", "a b/c.txt", "..a/b..", "\xc3\xa9t\xc3\xa9", ".hidden"}) {
    EXPECT_TRUE(CheckRelativePath(path).ok()) << path;
  }
}

TEST(CheckRelativePathTest, RefusesHostileNames) {
  const std::vector<std::string> hostile = {"",
                                            "/",
                                            "/etc/passwd",
                                            "a/",
                                            "a//b",
                                            ".",
                                            "..",
                                            "../a",
                                            "a/../b",
                                            "a/.",
                                            std::string("a\0b", 3),
                                            "a\nb",
                                            "a\x7f",
                                            "a\\b",
                                            "\xc0\xaf",
                                            "\xed\xa0\x80",
                                            "\xff",
                                            "\xe2\x82",
                                            std::string(256, 'x'),
                                            std::string(1025, '/')};
  for (const std::string& path : hostile) {
    const absl::Status status = CheckRelativePath(path);
    EXPECT_EQ(status::Reason(status), "UNSAFE_PATH") << path;
  }
}

TEST(CheckPathSetTest, RefusesTwins) {
  EXPECT_TRUE(CheckPathSet({"a/b", "a/c", "d"}).ok());
  EXPECT_FALSE(CheckPathSet({"a/B", "A/b"}).ok());
  // "é" composed and decomposed; "ß" and "SS" fold alike; the long s is an s.
  EXPECT_FALSE(CheckPathSet({"\xc3\xa9", "e\xcc\x81"}).ok());
  EXPECT_FALSE(CheckPathSet({"stra\xc3\x9f"
                             "e",
                             "STRASSE"})
                   .ok());
  EXPECT_FALSE(CheckPathSet({"a", "a/b"}).ok());
  EXPECT_FALSE(CheckPathSet({"A", "a/b"}).ok());
  EXPECT_FALSE(CheckPathSet({"same", "same"}).ok());
}

class SafeRootTest : public ::testing::Test {
 protected:
  SafeRootTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/safe_root.XXXXXX");
    base_ = ::mkdtemp(pattern.data());
    EXPECT_EQ(::mkdir((base_ + "/root").c_str(), 0755), 0);
    EXPECT_EQ(::mkdir((base_ + "/outside").c_str(), 0755), 0);
    auto root = SafeRoot::Open(base_ + "/root");
    EXPECT_TRUE(root.ok());
    root_.emplace(*std::move(root));
  }

  void Write(const std::string& path) {
    auto fd = root_->OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    ASSERT_TRUE(fd.ok()) << fd.status();
    ASSERT_TRUE(WriteAll(fd->get(), path, path).ok());
  }

  std::string base_;
  std::optional<SafeRoot> root_;
};

TEST_F(SafeRootTest, WritesListsRenamesRemoves) {
  ASSERT_TRUE(root_->MakeDirectories("x/y").ok());
  Write("x/y/f");
  Write("g");
  EXPECT_THAT(*root_->ListFiles(""), ElementsAre("g", "x/y/f"));
  EXPECT_THAT(*root_->ListFiles("x"), ElementsAre("x/y/f"));
  EXPECT_EQ(root_->Rename("g", "x/y/f", false).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(root_->Rename("g", "x/y/f", true).ok());
  auto fd = root_->OpenFile("x/y/f", O_RDONLY);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(*ReadAll(fd->get(), 100, "f"), "g");
  EXPECT_TRUE(root_->Sync("x/y").ok());
  EXPECT_TRUE(root_->RemoveTree("x").ok());
  EXPECT_TRUE(root_->RemoveTree("x").ok());
  EXPECT_TRUE(root_->ListFiles("")->empty());
}

TEST_F(SafeRootTest, FollowsNoLink) {
  ASSERT_EQ(::symlink((base_ + "/outside").c_str(), (base_ + "/root/link").c_str()), 0);
  ASSERT_EQ(::symlink("../outside", (base_ + "/root/relative").c_str()), 0);
  for (const char* path : {"link/f", "relative/f"}) {
    EXPECT_EQ(status::Reason(root_->OpenFile(path, O_WRONLY | O_CREAT, 0644).status()),
              "UNSAFE_PATH");
    EXPECT_FALSE(root_->MakeDirectories(path).ok());
  }
  EXPECT_EQ(status::Reason(root_->ListFiles("").status()), "NOT_A_REGULAR_FILE");
  // Removing the tree removes the link, not what it points to.
  EXPECT_TRUE(root_->RemoveTree("link").ok());
  EXPECT_EQ(::access((base_ + "/outside").c_str(), F_OK), 0);
}

TEST_F(SafeRootTest, AtomicWriteReplacesWhole) {
  const std::string path = base_ + "/file";
  ASSERT_TRUE(WriteFileAtomically(path, "one", 0600).ok());
  ASSERT_TRUE(WriteFileAtomically(path, "two", 0600).ok());
  UniqueFd fd(::open(path.c_str(), O_RDONLY));
  EXPECT_EQ(*ReadAll(fd.get(), 10, path), "two");
  EXPECT_FALSE(WriteFileAtomically(base_ + "/absent/file", "x", 0600).ok());
}

TEST_F(SafeRootTest, AReplacedFileIsWhole) {
  const std::string path = base_ + "/control";
  EXPECT_TRUE(ReplaceFile(path, "one").ok());
  EXPECT_TRUE(ReplaceFile(path, "2").ok());
  UniqueFd fd(::open(path.c_str(), O_RDONLY));
  EXPECT_EQ(*ReadAll(fd.get(), 10, path), "2");
  struct stat st;
  ASSERT_EQ(::fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_FALSE(ReplaceFile(base_ + "/absent/file", "x").ok());
}

}  // namespace
}  // namespace capstan
