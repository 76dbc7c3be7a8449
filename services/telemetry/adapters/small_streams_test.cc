#include "services/telemetry/adapters/small_streams.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/segment_log/segment_log.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_connection.h"

namespace capstan::telemetry {
namespace {

constexpr char kA[] = "projects/p/jobs/a/streams/events";
constexpr char kB[] = "projects/p/jobs/b/streams/events";

class SmallStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    small_ = nullptr;
    auto opened = SmallStreams::Open(path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    small_ = *std::move(opened);
  }
  std::string path() const { return folder_.path() + "/small.sqlite"; }
  // As other hands would.
  void Execute(const std::string& sql) {
    small_ = nullptr;
    auto db = store::SqliteConnection::Open(path(), true, false);
    ASSERT_TRUE(db.ok()) << db.status();
    const absl::Status done = (*db)->Execute(sql);
    ASSERT_TRUE(done.ok()) << done;
    db->reset();
    Open();
  }
  void Put(const std::string& stream, int64_t first, const std::vector<std::string>& payloads,
           int64_t at = 0) {
    small_->Append(stream, first, payloads, absl::FromUnixSeconds(at));
    const absl::Status committed = small_->Commit();
    ASSERT_TRUE(committed.ok()) << committed;
  }
  // "<offset>=<payload> …", or the error.
  std::string Text(const std::string& stream, int64_t offset = 1, int64_t max_bytes = 1 << 20) {
    const auto entries = small_->Read(stream, offset, max_bytes);
    if (!entries.ok()) return status::Reason(entries.status());
    std::string text;
    for (const auto& [at, payload] : *entries) absl::StrAppend(&text, at, "=", payload, " ");
    return text;
  }
  SmallStreams::Extent Extent(const std::string& stream) {
    const auto extent = small_->Load(stream, [](absl::string_view) {});
    EXPECT_TRUE(extent.ok()) << extent.status();
    return extent.value_or(SmallStreams::Extent());
  }

  const TemporaryFolder folder_;
  std::unique_ptr<SmallStreams> small_;
};

TEST_F(SmallStreamsTest, WhatIsCommittedIsReadInOrderAlsoAfterAnotherStart) {
  Put(kA, 1, {"one", "two"});
  Put(kB, 1, {"other"});
  Put(kA, 3, {"three", "", "five"});
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(Text(kA), "1=one 2=two 3=three 4= 5=five ");
    EXPECT_EQ(Text(kA, 2), "2=two 3=three 4= 5=five ");
    EXPECT_EQ(Text(kA, 4), "4= 5=five ");
    EXPECT_EQ(Text(kA, 6), "");
    EXPECT_EQ(Text(kA, 1, 4), "1=one 2=two ");
    EXPECT_EQ(Text(kB), "1=other ");
    EXPECT_EQ(Extent(kA).next_offset, 6);
    EXPECT_EQ(Extent(kA).bytes, 5 * 9 + 15);
    EXPECT_EQ(Extent("projects/p/jobs/none/streams/events").next_offset, 1);
    Open();
  }
}

TEST_F(SmallStreamsTest, NothingIsReadBeforeItIsCommitted) {
  small_->Append(kA, 1, {"one"}, absl::UnixEpoch());
  EXPECT_EQ(Text(kA), "");
  EXPECT_EQ(Extent(kA).next_offset, 1);
  const auto moved = small_->ReadForMove(kA);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(*moved, std::vector<std::string>{"one"});
  ASSERT_TRUE(small_->Commit().ok());
  EXPECT_EQ(Text(kA), "1=one ");
  // A commit of nothing.
  EXPECT_TRUE(small_->Commit().ok());
}

TEST_F(SmallStreamsTest, AnErrorUndoesAllSinceTheLastCommit) {
  Put(kA, 1, {"one"});
  small_->Append(kB, 1, {"other"}, absl::UnixEpoch());
  // Offsets that are there.
  small_->Append(kA, 1, {"again"}, absl::UnixEpoch());
  small_->Append(kA, 2, {"two"}, absl::UnixEpoch());
  small_->Remove(kA);
  EXPECT_FALSE(small_->Commit().ok());
  EXPECT_EQ(Text(kA), "1=one ");
  EXPECT_EQ(Text(kB), "");
  Put(kA, 2, {"two"});
  EXPECT_EQ(Text(kA), "1=one 2=two ");
}

TEST_F(SmallStreamsTest, WhatIsRemovedIsGoneOnceItIsCommitted) {
  Put(kA, 1, {"one"});
  Put(kB, 1, {"other"});
  small_->Remove(kA);
  EXPECT_EQ(Text(kA), "1=one ");
  ASSERT_TRUE(small_->Commit().ok());
  small_->GiveBackRoom();
  EXPECT_EQ(Text(kA), "");
  EXPECT_EQ(Text(kB), "1=other ");
  Put(kA, 1, {"new"});
  EXPECT_EQ(Text(kA), "1=new ");
}

TEST_F(SmallStreamsTest, ADamagedRowIsNamedAndWhatIsAroundItIsRead) {
  Put(kA, 1, {"one", "two"});
  Put(kA, 3, {"three"});
  Put(kA, 4, {"four"});
  const std::vector<std::string> changes = {
      // A flipped bit, an end that is missing, all that is missing, a record too many.
      "CAST(substr(frames, 1, 9) || 'X' || substr(frames, 11) AS BLOB)",
      "CAST(substr(frames, 1, 11) AS BLOB)", "x''",
      "CAST(frames || (SELECT frames FROM kept WHERE first = 4) AS BLOB)"};
  for (const std::string& change : changes) {
    SCOPED_TRACE(change);
    Execute(absl::StrCat("CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM pieces;",
                         "DELETE FROM pieces; INSERT INTO pieces SELECT * FROM kept;",
                         "UPDATE pieces SET frames = ", change, " WHERE first = 3"));
    EXPECT_EQ(Text(kA), "1=one 2=two ") << "what is before it first";
    const auto damaged = small_->Read(kA, 3, 100);
    ASSERT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss) << damaged.status();
    EXPECT_EQ(status::Reason(damaged.status()), segment_log::kReasonDamaged);
    EXPECT_EQ(status::GetErrorInfo(damaged.status())->metadata.at("next_offset"), "4");
    EXPECT_EQ(Text(kA, 4), "4=four ");
    const SmallStreams::Extent extent = Extent(kA);
    EXPECT_EQ(extent.next_offset, 5);
    EXPECT_EQ(extent.damaged_records, 1);
    EXPECT_EQ(small_->ReadForMove(kA).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(SmallStreamsTest, SilentStreamsAreThoseWithoutAnythingYoung) {
  // Of 20 each, every second one goes on at 200.
  for (int i = 0; i < 20; ++i) Put(absl::StrCat("s", i), 1, {"x"}, /*at=*/100 + i);
  for (int i = 0; i < 20; i += 2) Put(absl::StrCat("s", i), 2, {"y"}, /*at=*/200);
  const auto silent = [this](int64_t since, int limit) {
    std::vector<std::string> all;
    for (int64_t after = 0; after >= 0;) {
      const auto some = small_->Silent(absl::FromUnixSeconds(since), limit, &after);
      EXPECT_TRUE(some.ok()) << some.status();
      if (!some.ok()) return all;
      EXPECT_LE(some->size(), static_cast<size_t>(limit));
      all.insert(all.end(), some->begin(), some->end());
    }
    return all;
  };
  for (const int limit : {1, 3, 30, 100}) {
    EXPECT_EQ(silent(100, limit), std::vector<std::string>());
    EXPECT_EQ(silent(104, limit), (std::vector<std::string>{"s1", "s3"}));
    EXPECT_EQ(silent(150, limit).size(), 10u);
    EXPECT_EQ(silent(201, limit).size(), 20u);
  }
  EXPECT_EQ(*small_->LastWrite("s1"), absl::FromUnixSeconds(101));
  EXPECT_EQ(*small_->LastWrite("s2"), absl::FromUnixSeconds(200));
  EXPECT_EQ(*small_->LastWrite("none"), absl::InfinitePast());
}

TEST_F(SmallStreamsTest, AnothersFileIsRefused) {
  small_ = nullptr;
  {
    auto db = store::SqliteConnection::Open(path(), true, false);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Execute("PRAGMA application_id = 1").ok());
  }
  const absl::Status refused = SmallStreams::Open(path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_EQ(status::Reason(refused), "NOT_SMALL_STREAMS");
}

}  // namespace
}  // namespace capstan::telemetry
