#include "libs/digest/fd_digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "libs/digest/sha256.h"

namespace capstan {
namespace {

TEST(FdDigestTest, IsThatOfWhatIsLeftInAnyNumberOfPieces) {
  const std::string path = testing::TempDir() + "/digested";
  std::string content((3 << 20) + 7, 'x');
  content[1 << 20] = 'y';
  std::ofstream(path, std::ios::binary) << content;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto whole = DigestFd(fd, path);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->size, static_cast<int64_t>(content.size()));
  EXPECT_EQ(whole->sha256, Sha256::Of(content));
  ASSERT_EQ(lseek(fd, 1 << 20, SEEK_SET), 1 << 20);
  EXPECT_EQ(DigestFd(fd, path)->sha256, Sha256::Of(content.substr(1 << 20)));
  EXPECT_EQ(DigestFd(fd, path)->sha256, Sha256::Of(""));
  close(fd);
}

TEST(FdDigestTest, AFolderIsNamed) {
  const int fd = open(testing::TempDir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_NE(std::string(DigestFd(fd, "the/folder").status().message()).find("the/folder"),
            std::string::npos);
  close(fd);
}

}  // namespace
}  // namespace capstan
