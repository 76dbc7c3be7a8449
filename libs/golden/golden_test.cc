#include "libs/golden/golden.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "libs/golden/sqlite_dump.h"
#include "libs/safe_path/testing/temporary_folder.h"

namespace capstan::golden {
namespace {

constexpr char kPackage[] = "libs/golden";

TEST(GoldenTest, VersionsComeOldestFirstAndTheNewestIsWhatMustBeWritten) {
  const Format format(kPackage, "example", "hex");
  ASSERT_EQ(format.versions().size(), 2u);
  EXPECT_EQ(format.versions()[0].bytes, std::string("\x01\x00\xff", 3));
  EXPECT_EQ(format.versions()[1].bytes, std::string("\x02\x00\xff\x10", 4));
  format.ExpectWritten(std::string("\x02\x00\xff\x10", 4));
}

TEST(GoldenTest, OtherBytesFailTheTestAndItSaysWhatToDo) {
  const Format format(kPackage, "example", "hex");
  EXPECT_NONFATAL_FAILURE(format.ExpectWritten(format.versions()[0].bytes),
                          "as libs/golden/testdata/stored/example.v3.hex");
  EXPECT_NONFATAL_FAILURE(format.ExpectWritten(""), "leave that file as it is and readable");
}

TEST(GoldenTest, AMissingVersionFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(Format(kPackage, "none", "hex"), "no version of `none`");
  EXPECT_NONFATAL_FAILURE(Format(kPackage, "torn", "hex"), "a version of `torn` is missing");
}

TEST(GoldenTest, AFolderComesBackAsItWas) {
  const TemporaryFolder from;
  ASSERT_EQ(mkdir((from.path() + "/a").c_str(), 0750), 0);
  std::ofstream(from.path() + "/a/b c") << std::string(40, '\x07');
  std::ofstream(from.path() + "/empty").close();
  ASSERT_EQ(chmod((from.path() + "/a/b c").c_str(), 0444), 0);
  ASSERT_EQ(chmod((from.path() + "/empty").c_str(), 0600), 0);
  const std::string dump = DumpFolder(from.path());
  EXPECT_EQ(dump, absl::StrCat("folder 0750 a\nfile 0444 a/b c\n  ",
                               "0707070707070707070707070707070707070707070707070707070707070707",
                               "\n  0707070707070707\nfile 0600 empty\n"));
  const TemporaryFolder to;
  RestoreFolder(dump, to.path());
  EXPECT_EQ(DumpFolder(to.path()), dump);
}

TEST(GoldenTest, ADatabaseComesBackAsItWas) {
  const std::string sql =
      "PRAGMA application_id = 17;\nPRAGMA user_version = 3;\n"
      "CREATE TABLE t(a TEXT PRIMARY KEY, b BLOB);\nCREATE INDEX t_by_b ON t(b);\n"
      "INSERT INTO t VALUES('it''s',X'00FF');\nINSERT INTO t VALUES('x',NULL);\n";
  const TemporaryFolder folder;
  RestoreSqlite(sql, folder.path() + "/db");
  EXPECT_EQ(DumpSqlite(folder.path() + "/db"), sql);
}

}  // namespace
}  // namespace capstan::golden
