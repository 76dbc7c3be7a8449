// What every DataSource promises, for its adapters' tests.
#ifndef CAPSTAN_SERVICES_DATA_LOADER_PORTS_DATA_SOURCE_CONFORMANCE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_PORTS_DATA_SOURCE_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {

// A place with objects, and the source over it.
class DataSourceBench {
 public:
  virtual ~DataSourceBench() = default;
  // Makes or replaces an object; a replaced one has another validator.
  virtual void Put(const std::string& path, const std::string& bytes) = 0;
  virtual void Remove(const std::string& path) = 0;
  virtual std::unique_ptr<DataSource> Open() = 0;
};
using MakeDataSourceBench = std::function<std::unique_ptr<DataSourceBench>()>;

class DataSourceConformanceTest : public ::testing::TestWithParam<MakeDataSourceBench> {
 protected:
  DataSourceConformanceTest() : bench_(GetParam()()) {
    for (size_t i = 0; i < big_.size(); ++i) big_[i] = static_cast<char>(i * 31 % 251);
    bench_->Put("a", "abc");
    bench_->Put("sub/b c", big_);
    bench_->Put("empty", "");
    source_ = bench_->Open();
  }

  std::vector<LoadPlan::File> Plan(const std::vector<std::string>& objects) {
    auto files = source_->List(objects);
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? *files : std::vector<LoadPlan::File>();
  }
  absl::StatusOr<std::string> Read(const LoadPlan::File& file, int64_t offset, int64_t length) {
    std::string bytes;
    const absl::Status read = source_->Read(file, offset, length, [&](absl::string_view piece) {
      bytes.append(piece.data(), piece.size());
      return absl::OkStatus();
    });
    if (!read.ok()) return read;
    return bytes;
  }

  std::unique_ptr<DataSourceBench> bench_;
  std::string big_ = std::string(300'000, '\0');
  std::unique_ptr<DataSource> source_;
};

TEST_P(DataSourceConformanceTest, ListsWithSizesInOrderAndReadsEveryRange) {
  const auto files = Plan({"sub/b c", "empty", "a"});
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].path(), "a");
  EXPECT_EQ(files[0].size_bytes(), 3);
  EXPECT_EQ(files[1].path(), "empty");
  EXPECT_EQ(files[1].size_bytes(), 0);
  EXPECT_EQ(files[2].path(), "sub/b c");
  EXPECT_EQ(files[2].size_bytes(), 300'000);
  for (const LoadPlan::File& file : files) EXPECT_FALSE(file.validator().empty());
  EXPECT_EQ(*Read(files[0], 0, 3), "abc");
  EXPECT_EQ(*Read(files[2], 0, 300'000), big_);
  EXPECT_EQ(*Read(files[2], 1000, 1), big_.substr(1000, 1));
  EXPECT_EQ(*Read(files[2], 299'000, 1000), big_.substr(299'000));
  for (const LoadPlan::File& file : files) {
    EXPECT_TRUE(source_->CheckUnchanged(file).ok()) << source_->CheckUnchanged(file);
  }
}

TEST_P(DataSourceConformanceTest, AMissingObjectIsNamed) {
  const absl::Status missing = source_->List({"a", "gone.npz"}).status();
  EXPECT_EQ(status::Reason(missing), "OBJECT_NOT_FOUND") << missing;
  EXPECT_TRUE(absl::StrContains(missing.message(), "gone.npz")) << missing;
  const auto files = Plan({"a"});
  bench_->Remove("a");
  EXPECT_EQ(status::Reason(Read(files[0], 0, 3).status()), "OBJECT_NOT_FOUND");
  EXPECT_EQ(status::Reason(source_->CheckUnchanged(files[0])), "OBJECT_NOT_FOUND");
}

TEST_P(DataSourceConformanceTest, AnObjectOfAnotherContentIsRefused) {
  const auto files = Plan({"sub/b c"});
  bench_->Put("sub/b c", std::string(300'000, 'x'));
  const absl::Status changed = Read(files[0], 0, 300'000).status();
  EXPECT_EQ(status::Reason(changed), "SOURCE_CHANGED") << changed;
  EXPECT_TRUE(absl::StrContains(changed.message(), "sub/b")) << changed;
  EXPECT_EQ(status::Reason(Read(files[0], 1000, 10).status()), "SOURCE_CHANGED");
  EXPECT_EQ(status::Reason(source_->CheckUnchanged(files[0])), "SOURCE_CHANGED");
  bench_->Put("sub/b c", "short");
  EXPECT_EQ(status::Reason(Read(files[0], 1000, 10).status()), "SOURCE_CHANGED");
}

TEST_P(DataSourceConformanceTest, AnErrorOfTheReaderEndsTheCall) {
  const auto files = Plan({"sub/b c"});
  int calls = 0;
  EXPECT_EQ(source_->Read(files[0], 0, 300'000,
                          [&calls](absl::string_view) {
                            ++calls;
                            return absl::DataLossError("no more");
                          }),
            absl::DataLossError("no more"));
  EXPECT_EQ(calls, 1);
}

TEST_P(DataSourceConformanceTest, HostileNamesAreRefused) {
  for (const char* name : {"../a", "/a", "a/../b", "a//b", "", "a\nb"}) {
    EXPECT_FALSE(source_->List({name}).ok()) << name;
  }
}

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_PORTS_DATA_SOURCE_CONFORMANCE_H_
