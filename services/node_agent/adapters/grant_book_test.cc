#include "services/node_agent/adapters/grant_book.h"

#include "gtest/gtest.h"

namespace capstan::node_agent {
namespace {

using session::TaskId;

const TaskId kFirst{"u", 1, "w", 0};
const TaskId kSecond{"u", 2, "w", 0};
const TaskId kOther{"v", 1, "w", 0};

GrantBook::Metadata Shown(const std::string& grant) {
  return {{"capstan-placement-grant-bin", grant}};
}

TEST(GrantBookTest, ShowsTheGrantOfWhatACallIsAbout) {
  GrantBook book;
  book.Hold({kFirst, "projects/p/jobs/j", "first"});
  book.Hold({kSecond, "projects/p/jobs/j", "second"});
  book.Hold({kOther, "projects/p/jobs/k", "other"});
  EXPECT_EQ(book.OfTask(kSecond), Shown("second"));
  EXPECT_EQ(book.OfHolder("u/1"), Shown("first"));
  EXPECT_EQ(book.OfHolder("v/1"), Shown("other"));
  EXPECT_EQ(book.OfJob("projects/p/jobs/k"), Shown("other"));
  EXPECT_TRUE(book.OfTask({"u", 1, "w", 1}).empty());
  EXPECT_TRUE(book.OfHolder("u/3").empty());
  EXPECT_TRUE(book.OfJob("projects/p/jobs/l").empty());
}

TEST(GrantBookTest, ATasksGrantIsReplacedAndDropped) {
  GrantBook book;
  book.Hold({kFirst, "projects/p/jobs/j", "first"});
  book.Hold({kFirst, "projects/p/jobs/j", "younger"});
  EXPECT_EQ(book.OfJob("projects/p/jobs/j"), Shown("younger"));
  book.Drop(kFirst);
  book.Drop(kFirst);
  EXPECT_TRUE(book.OfHolder("u/1").empty());
}

}  // namespace
}  // namespace capstan::node_agent
