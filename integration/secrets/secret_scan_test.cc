#include "integration/secrets/secret_scan.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/secrets/secret_forms.h"
#include "libs/random/random.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/segment_log/frame.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;

std::string RandomBytes(Random* random, size_t size) {
  std::string bytes;
  while (bytes.size() < size) bytes.push_back(static_cast<char>(random->Next() >> 32));
  return bytes;
}

// A binary one and one of letters.
class SecretScanTest : public ::testing::Test {
 protected:
  SecretScanTest() {
    chmod(folder_.path().c_str(), 0711);
    scan_.Add({"binary", binary_, {"home/*"}});
    scan_.Add({"text", text_, {"home/*"}});
  }
  bool Finds(const std::string& bytes) {
    SecretScan scan;
    scan.Add({"binary", binary_, {}});
    scan.Add({"text", text_, {}});
    scan.Look("here", bytes);
    return !scan.Strays().empty();
  }
  void Write(const std::string& name, const std::string& bytes, mode_t mode) {
    const std::string path = absl::StrCat(folder_.path(), "/", name);
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), mode);
  }

  Random random_{7};
  const std::string binary_ = RandomBytes(&random_, 32);
  const std::string text_ = "hunter2-" + absl::BytesToHexString(RandomBytes(&random_, 20));
  TemporaryFolder folder_;
  SecretScan scan_;
};

TEST_F(SecretScanTest, WhatTheSchedulerHasRecordedIsDecompressed) {
  // Among so much that is like it, it is worth a code: no piece of it stays as it is.
  const std::string block = absl::StrCat(absl::BytesToHexString(RandomBytes(&random_, 5000)), text_,
                                         absl::BytesToHexString(RandomBytes(&random_, 5000)));
  std::string compressed(2 * ZSTD_compressBound(block.size()), '\0');
  ZSTD_CCtx* const zstd = ZSTD_createCCtx();
  ZSTD_inBuffer in = {block.data(), block.size(), 0};
  ZSTD_outBuffer out = {compressed.data(), compressed.size(), 0};
  ASSERT_EQ(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_flush), 0u);
  ZSTD_freeCCtx(zstd);
  std::string file;
  segment_log::AppendFrame(segment_log::FrameKind::kHeader, "header", &file);
  segment_log::AppendFrame(segment_log::FrameKind::kRecord,
                           absl::string_view(compressed.data(), out.pos), &file);
  ASSERT_FALSE(Finds(file));
  Write("recording", file, 0600);
  scan_.LookAtFile("a recording", absl::StrCat(folder_.path(), "/recording"));
  EXPECT_TRUE(scan_.Saw("text", "a recording"));
  EXPECT_FALSE(scan_.Saw("binary", "a recording"));
}

TEST_F(SecretScanTest, EveryFormIsFoundAtEveryAlignment) {
  for (const std::string& secret : {binary_, text_}) {
    for (size_t before = 0; before < 7; ++before) {
      const std::string whole = RandomBytes(&random_, before) + secret + RandomBytes(&random_, 5);
      const std::string hex = absl::BytesToHexString(whole);
      const std::string base64 = absl::Base64Escape(whole);
      std::string colons;
      for (size_t i = 0; i < hex.size(); i += 2) absl::StrAppend(&colons, hex.substr(i, 2), ":");
      std::string broken;
      for (size_t i = 0; i < base64.size(); i += 16) {
        absl::StrAppend(&broken, base64.substr(i, 16), "\n");
      }
      for (const std::string& written : std::vector<std::string>{
               whole, hex, absl::AsciiStrToUpper(hex), colons, base64,
               absl::WebSafeBase64Escape(whole), broken,
               absl::StrReplaceAll(broken, {{"\n", "\\n"}}),
               absl::StrReplaceAll(base64, {{"/", "\\/"}}), absl::CEscape(whole),
               absl::CHexEscape(whole), absl::Utf8SafeCHexEscape(whole)}) {
        EXPECT_TRUE(Finds(written)) << before << ": " << absl::CHexEscape(written);
      }
    }
  }
  EXPECT_TRUE(Finds("q=" + FormsOf(binary_)[7].text)) << "percent-encoded";
}

TEST_F(SecretScanTest, SixteenBytesOfItAreEnoughAndOthersAreNone) {
  for (size_t at = 0; at + 16 <= binary_.size(); ++at) {
    EXPECT_TRUE(Finds(absl::StrCat("xyz", binary_.substr(at, 16), "xyz"))) << at;
  }
  EXPECT_FALSE(Finds(absl::StrCat("xyz", binary_.substr(3, 11), "xyz")));
  EXPECT_FALSE(Finds(RandomBytes(&random_, 1 << 20)));
  EXPECT_FALSE(Finds(""));
  std::string flipped = binary_;
  for (size_t i = 0; i < flipped.size(); i += 8) flipped[i] = static_cast<char>(flipped[i] ^ 1);
  EXPECT_FALSE(Finds(flipped));
}

TEST_F(SecretScanTest, FoldersAreLookedThroughAndHomesAreTold) {
  std::filesystem::create_directories(folder_.path() + "/deep/er");
  Write("deep/er/log", absl::StrCat("line\npassword=", text_, "\n"), 0644);
  Write("deep/er/closed", text_, 0600);
  Write("clean", RandomBytes(&random_, 100'000), 0644);
  Write("named-" + text_, "", 0600);
  std::filesystem::create_symlink(text_, folder_.path() + "/link");
  scan_.LookAtFolder("home", folder_.path());
  EXPECT_EQ(scan_.Strays(), "text: in home (names) (raw)\n");
  EXPECT_TRUE(scan_.Saw("text", "home/deep/er/log"));
  EXPECT_TRUE(scan_.Saw("text", "home/deep/*/closed"));
  EXPECT_TRUE(scan_.Saw("text", "home/link"));
  EXPECT_FALSE(scan_.Saw("text", "home/clean"));
  EXPECT_FALSE(scan_.Saw("binary", "*"));
  EXPECT_EQ(scan_.OpenHomes(), "text: in home/deep/er/log\n");
  scan_.LookAtFolder("elsewhere", folder_.path());
  EXPECT_THAT(scan_.Strays(), HasSubstr("text: in elsewhere/deep/er/log (raw)\n"));
}

TEST_F(SecretScanTest, AFolderThatNobodyMayPassIsClosed) {
  std::filesystem::create_directories(folder_.path() + "/mine");
  Write("mine/log", text_, 0644);
  chmod((folder_.path() + "/mine").c_str(), 0700);
  scan_.LookAtFolder("home", folder_.path());
  EXPECT_TRUE(scan_.Saw("text", "home/mine/log"));
  EXPECT_EQ(scan_.OpenHomes(), "");
}

// Also where the chunks that are read meet.
TEST_F(SecretScanTest, ALargeFileIsReadInPieces) {
  for (const size_t before : {(16u << 20) - 20, (16u << 20) - 1, (32u << 20) + 5}) {
    Write("large", std::string(before, 'x') + binary_ + std::string(100, 'y'), 0600);
    SecretScan scan;
    scan.Add({"binary", binary_, {}});
    scan.LookAtFile("large", folder_.path() + "/large");
    EXPECT_TRUE(scan.Saw("binary", "large")) << before;
  }
}

// A value of several pages, and a secret where one ends: what a row holds is looked at whole.
TEST_F(SecretScanTest, RowsOfSqliteFilesAreReadThroughTheirLog) {
  const std::string path = folder_.path() + "/store.sqlite";
  const std::string secret = binary_.substr(0, 20);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(value BLOB)", nullptr, nullptr,
               nullptr);
  for (size_t before = 1870; before < 1920; ++before) {
    std::string value = std::string(before, 'x') + secret;
    value.resize(6000, 'y');
    sqlite3_stmt* put = nullptr;
    sqlite3_prepare_v2(db, "INSERT INTO t VALUES (?)", -1, &put, nullptr);
    sqlite3_bind_blob(put, 1, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    EXPECT_EQ(sqlite3_step(put), SQLITE_DONE);
    sqlite3_finalize(put);
    SecretScan scan;
    scan.Add({"short", secret, {}});
    scan.LookAtFile("store", path);
    EXPECT_TRUE(scan.Saw("short", "store")) << before;
    sqlite3_exec(db, "DELETE FROM t", nullptr, nullptr, nullptr);
    sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE); VACUUM", nullptr, nullptr, nullptr);
  }
  sqlite3_close(db);
}

TEST_F(SecretScanTest, ProcessesShowArgumentsAndEnvironment) {
  // This test's own are left out; nobody else knows the secrets.
  scan_.LookAtProcesses();
  EXPECT_EQ(scan_.Strays(), "");
  EXPECT_GT(scan_.places(), 2u);
  dev::SpawnOptions spawn;
  spawn.argv = {"/usr/bin/tail", "-f", "/dev/null", "/nowhere/" + text_};
  spawn.environment = {"SECRET=" + absl::BytesToHexString(binary_), "CAPSTAN_JOB_UID=1"};
  spawn.output_file = "/dev/null";
  const auto child = dev::Child::Spawn(spawn);
  ASSERT_TRUE(child.ok()) << child.status();
  // It may not have come to its program yet.
  while (!scan_.Saw("text", "argv of tail")) scan_.LookAtProcesses();
  EXPECT_THAT(scan_.Strays(), HasSubstr("binary: in environment of Task tail (hex)"));
  dev::SignalProcess(child->id(), SIGKILL);
  waitpid(child->id().pid, nullptr, 0);
}

}  // namespace
}  // namespace capstan::integration
