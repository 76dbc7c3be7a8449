#include "libs/process/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::process {
namespace {

std::string MakeFile(const std::string& name, mode_t mode) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  unlink(path.c_str());
  std::ofstream(path) << "a token";
  chmod(path.c_str(), mode);
  return path;
}

TEST(TokenFileTest, OfItsOwnerAloneIsOpened) {
  const auto fd = OpenTokenFile(MakeFile("own", 0600));
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(fd->valid());
}

TEST(TokenFileTest, NoneIsNoError) {
  EXPECT_FALSE(OpenTokenFile("")->valid());
  EXPECT_FALSE(OpenTokenFile(absl::StrCat(testing::TempDir(), "/none"))->valid());
}

TEST(TokenFileTest, OneThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0640, 0604, 0660, 0611}) {
    const auto fd = OpenTokenFile(MakeFile("open", mode));
    EXPECT_EQ(status::Reason(fd.status()), "TOKEN_FILE_READABLE") << mode;
  }
}

TEST(TokenFileTest, ALinkIsRefused) {
  const std::string link = absl::StrCat(testing::TempDir(), "/link");
  unlink(link.c_str());
  ASSERT_EQ(symlink(MakeFile("target", 0600).c_str(), link.c_str()), 0);
  EXPECT_FALSE(OpenTokenFile(link).ok());
}

}  // namespace
}  // namespace capstan::process
