#include "services/data_loader/adapters/part_copier.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "libs/content/part_journal.h"
#include "libs/digest/sha256.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "services/data_loader/core/load_plan.pb.h"
#include "services/data_loader/core/part_plan.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {
namespace {

using content::PartJournal;

constexpr int64_t kPart = 5 << 20;

// Objects in memory, given in pieces that end nowhere in particular.
class MemorySource final : public DataSource {
 public:
  absl::StatusOr<std::vector<LoadPlan::File>> List(const std::vector<std::string>&) const override {
    return absl::UnimplementedError("not asked for");
  }
  absl::Status Read(const LoadPlan::File& planned, int64_t offset, int64_t length,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) const override {
    absl::string_view rest = absl::string_view(objects.at(planned.path()))
                                 .substr(static_cast<size_t>(offset), static_cast<size_t>(length));
    while (!rest.empty()) {
      const absl::string_view piece = rest.substr(0, 300'007);
      const absl::Status taken = sink(piece);
      if (!taken.ok()) return taken;
      rest.remove_prefix(piece.size());
      absl::MutexLock lock(&mutex_);
      read_ += static_cast<int64_t>(piece.size());
      if (read_ > breaks_after) return absl::AbortedError("changed");
    }
    return absl::OkStatus();
  }
  absl::Status CheckUnchanged(const LoadPlan::File&) const override { return absl::OkStatus(); }

  int64_t read() const {
    absl::MutexLock lock(&mutex_);
    return read_;
  }

  std::map<std::string, std::string> objects;
  int64_t breaks_after = int64_t{1} << 60;

 private:
  mutable absl::Mutex mutex_;
  mutable int64_t read_ ABSL_GUARDED_BY(mutex_) = 0;
};

class PartCopierTest : public ::testing::Test {
 protected:
  // Objects of these sizes.
  void Make(const std::vector<int64_t>& sizes) {
    Random random(7);
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::string bytes(static_cast<size_t>(sizes[i]), 'x');
      for (size_t at = 0; at < bytes.size(); at += 997)
        bytes[at] = static_cast<char>(random.Next());
      LoadPlan::File& file = *plan_.add_files();
      file.set_path(absl::StrCat("object-", i));
      file.set_size_bytes(sizes[i]);
      source_.objects[file.path()] = std::move(bytes);
    }
    parts_ = PlanParts(sizes, kPart);
  }

  absl::StatusOr<std::vector<std::string>> Copy(const PartCopier::Progressed& progressed =
                                                    [](int64_t, int64_t) {}) {
    PartJournal journal = PartJournal::Open(root_, "journal").value();
    const CopyPlaces places{
        .source = &source_, .staged = &staged_, .plan = &plan_, .journal = &journal};
    PartCopier copier(places, options_, progressed, &stop_);
    auto digests = copier.Run(parts_, 0);
    source_bytes_read_ = copier.source_bytes_read();
    return digests;
  }
  std::vector<std::string> Digests() const {
    std::vector<std::string> digests;
    for (const auto& [name, bytes] : source_.objects) digests.push_back(Sha256::Of(bytes));
    return digests;
  }
  int64_t NotedBytes() {
    const std::set<PartJournal::PartKey> noted = PartJournal::Open(root_, "journal")->found();
    int64_t bytes = 0;
    for (const Part& part : parts_) {
      if (noted.contains({part.file, part.index})) bytes += part.size;
    }
    return bytes;
  }

  const TemporaryFolder folder_;
  const SafeRoot root_ = SafeRoot::Open(folder_.path()).value();
  const SafeRoot staged_ = [this] {
    EXPECT_TRUE(root_.MakeDirectories("files").ok());
    return root_.Descend("files").value();
  }();
  MemorySource source_;
  LoadPlan plan_;
  std::vector<Part> parts_;
  CopyOptions options_;
  std::atomic<bool> stop_ = false;
  int64_t source_bytes_read_ = 0;
};

TEST_F(PartCopierTest, BringsAndHashesFilesOfAllSizes) {
  Make({3 * kPart + 1, 0, 1, kPart, 7 * kPart - 1, kPart + 1, 2 * kPart});
  std::vector<int64_t> loaded;
  const auto digests = Copy([&loaded](int64_t bytes, int64_t) { loaded.push_back(bytes); });
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_EQ(*digests, Digests());
  int64_t total = 0;
  for (const auto& [name, bytes] : source_.objects) {
    total += static_cast<int64_t>(bytes.size());
    const auto fd = staged_.OpenFile(name, O_RDONLY);
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(*ReadAll(fd->get(), 1 << 30, name), bytes);
  }
  EXPECT_EQ(source_.read(), total);
  EXPECT_EQ(source_bytes_read_, total);
  EXPECT_EQ(NotedBytes(), total);
  EXPECT_EQ(loaded.front(), 0);
  EXPECT_EQ(loaded.back(), total);
  EXPECT_TRUE(std::is_sorted(loaded.begin(), loaded.end()));
}

TEST_F(PartCopierTest, OneLargeFileIsCopiedByAllAndHashedInOrder) {
  Make({9 * kPart + 12345});
  EXPECT_EQ(*Copy(), Digests());
}

TEST_F(PartCopierTest, StoppedItNotesWhatItCopiedAndGoesOnWithTheRest) {
  Make({4 * kPart, 3 * kPart});
  for (const int64_t until : {int64_t{1}, 3 * kPart, 5 * kPart}) {
    stop_ = false;
    const absl::Status stopped = Copy([&](int64_t loaded, int64_t) {
                                   if (loaded >= until) stop_ = true;
                                 }).status();
    if (stopped.ok()) break;
    EXPECT_EQ(stopped, absl::CancelledError("stopped"));
  }
  stop_ = false;
  const int64_t noted = NotedBytes();
  EXPECT_GE(noted, kPart);
  const int64_t before = source_.read();
  EXPECT_EQ(*Copy(), Digests());
  EXPECT_EQ(source_.read() - before, 7 * kPart - noted);
  EXPECT_EQ(source_bytes_read_, 7 * kPart);
}

TEST_F(PartCopierTest, WhenAllIsNotedNothingIsReadAndTheFilesAreHashedAsTheyAre) {
  Make({2 * kPart, kPart});
  ASSERT_TRUE(Copy().ok());
  // As a disk that gives other bytes back.
  const auto fd = staged_.OpenFile("object-1", O_WRONLY);
  ASSERT_EQ(::pwrite(fd->get(), "?", 1, kPart - 1), 1);
  const int64_t before = source_.read();
  std::vector<std::string> expected = Digests();
  std::string changed = source_.objects["object-1"];
  changed.back() = '?';
  expected[1] = Sha256::Of(changed);
  EXPECT_EQ(*Copy(), expected);
  EXPECT_EQ(source_.read(), before);
}

TEST_F(PartCopierTest, AnErrorOfTheSourceEndsIt) {
  Make({4 * kPart, 4 * kPart});
  source_.breaks_after = 5 * kPart;
  EXPECT_EQ(Copy().status(), absl::AbortedError("changed"));
  EXPECT_LT(source_.read(), 8 * kPart);
}

TEST_F(PartCopierTest, AFileThatCannotBeSyncedEndsIt) {
  Make({1, kPart});
  ASSERT_EQ(::mkfifo((staged_.path() + "/object-0").c_str(), 0600), 0);
  EXPECT_FALSE(Copy().ok());
  EXPECT_LE(NotedBytes(), kPart);
}

}  // namespace
}  // namespace capstan::data_loader
