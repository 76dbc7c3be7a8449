#include "libs/store/etcd_pager.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::store {
namespace {

// What etcd would answer, and how many keys it would go through for that.
class Counted {
 public:
  explicit Counted(const std::vector<std::string>& keys, std::string value = "v") {
    for (const std::string& key : keys) kvs_.emplace(key, value);
  }

  bool Answer(EtcdPager* pager) {
    const RangeRequest request = pager->Next();
    EXPECT_GT(request.limit, 0);
    ++calls_;
    RangeResult page;
    page.revision = 7;
    int64_t count = 0;
    int64_t bytes = 0;
    const auto end =
        request.end.empty() ? kvs_.upper_bound(request.key) : kvs_.lower_bound(request.end);
    for (auto kv = kvs_.lower_bound(request.key); kv != end; ++kv, ++count) {
      if (count == request.limit) page.more = true;
      if (count >= request.limit) continue;
      page.kvs.push_back({.key = kv->first, .value = kv->second, .mod_revision = 1});
      bytes += static_cast<int64_t>(kv->first.size() + kv->second.size());
    }
    most_bytes_ = std::max(most_bytes_, bytes);
    visited_ += count;
    return pager->Take(std::move(page), count, bytes);
  }

  RangeResult Read(const RangeRequest& request, EtcdPager::Pace* pace) {
    EtcdPager pager(request, *pace);
    while (!Answer(&pager)) {
    }
    *pace = pager.pace();
    return pager.TakeResult();
  }

  // As a reader does who wants all, so many at a time.
  std::vector<std::string> ReadAll(const std::string& key, const std::string& end, int64_t limit) {
    std::vector<std::string> keys;
    RangeRequest request{.key = key, .end = end, .limit = limit};
    EtcdPager::Pace pace;
    while (true) {
      const RangeResult result = Read(request, &pace);
      EXPECT_LE(static_cast<int64_t>(result.kvs.size()), limit);
      for (const KeyValue& kv : result.kvs) keys.push_back(kv.key);
      if (!result.more) return keys;
      EXPECT_EQ(static_cast<int64_t>(result.kvs.size()), limit);
      request.key = keys.back() + '\0';
      request.revision = result.revision;
    }
  }

  int64_t visited() const { return visited_; }
  int64_t calls() const { return calls_; }
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::map<std::string, std::string> kvs_;
  int64_t visited_ = 0;
  int64_t calls_ = 0;
  int64_t most_bytes_ = 0;
};

std::vector<std::string> Sorted(std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

struct Shape {
  const char* name;
  std::string (*key)(int number, Random* random);
  // For each call, at least.
  int keys;
};

const Shape kShapes[] = {
    {"sorted by time",
     [](int number, Random*) { return absl::StrFormat("/p/jobs/%012x/state", number * 977); }, 300},
    {"of two records each",
     [](int number, Random*) {
       return absl::StrFormat("/p/jobs/%012x-4b7e/%s", number / 2 * 977,
                              number % 2 == 0 ? "spec" : "state");
     },
     300},
    {"random", [](int, Random* random) { return absl::StrFormat("/p/jobs/%016x", random->Next()); },
     300},
    {"decimal", [](int number, Random*) { return absl::StrCat("/p/jobs/job-", number); }, 300},
    {"any bytes",
     [](int, Random* random) {
       std::string key = "/p/jobs/";
       for (int i = 0; i < 6; ++i) key += static_cast<char>(random->Below(256));
       return key;
     },
     200},
    {"each the beginning of the next",
     [](int number, Random*) {
       return "/p/jobs/" + absl::StrCat(number / 500) + std::string(number % 500, 'x');
     },
     300},
};

TEST(EtcdPagerTest, ReadsEachKeyOnceAndHasFewCountedTwice) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    constexpr int kKeys = 100'000;
    Random random(1);
    std::vector<std::string> wanted;
    for (int i = 0; i < kKeys; ++i) wanted.push_back(shape.key(i, &random));
    wanted = Sorted(std::move(wanted));
    std::vector<std::string> keys = wanted;
    for (int i = 0; i < 1000; ++i) {
      keys.push_back(absl::StrCat("/p/a/", i));
      keys.push_back(absl::StrCat("/p/z/", i));
    }
    Counted etcd(keys);
    EXPECT_EQ(etcd.ReadAll("/p/jobs/", PrefixEnd("/p/jobs/"), 1000), wanted);
    EXPECT_LE(etcd.visited(), 7 * kKeys);
    EXPECT_LE(etcd.calls(), kKeys / shape.keys);
  }
}

TEST(EtcdPagerTest, ReadsAnyRangeAsItIs) {
  Random random(2);
  for (int world = 0; world < 30; ++world) {
    std::vector<std::string> keys;
    const int many = static_cast<int>(random.Below(world % 2 == 0 ? 50 : 12'000));
    for (int i = 0; i < many; ++i) {
      keys.push_back(kShapes[random.Below(std::size(kShapes))].key(
          static_cast<int>(random.Below(50'000)), &random));
    }
    keys = Sorted(std::move(keys));
    Counted etcd(keys);
    EtcdPager::Pace pace;
    for (int i = 0; i < 20; ++i) {
      std::string begin = keys.empty() ? "/" : keys[random.Below(keys.size())];
      std::string end = keys.empty() ? "0" : keys[random.Below(keys.size())];
      if (end <= begin) end = PrefixEnd(begin.substr(0, 1 + random.Below(begin.size())));
      const int64_t limit = 1 + static_cast<int64_t>(random.Below(3000));
      const auto from = std::lower_bound(keys.begin(), keys.end(), begin);
      const auto to = std::lower_bound(keys.begin(), keys.end(), end);
      // A pace of another range makes nothing wrong.
      if (random.Below(4) == 0) pace = {.prefix = random.Below(40), .record_bytes = 1};
      const RangeResult result = etcd.Read({.key = begin, .end = end, .limit = limit}, &pace);
      std::vector<std::string> read;
      for (const KeyValue& kv : result.kvs) read.push_back(kv.key);
      EXPECT_EQ(read, std::vector<std::string>(from, from + std::min<int64_t>(limit, to - from)));
      EXPECT_EQ(result.more, to - from > limit) << begin << " " << end << " " << limit;
      EXPECT_EQ(result.revision, 7);
    }
  }
}

TEST(EtcdPagerTest, AsksForFewLargeRecordsAtOnce) {
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back(absl::StrFormat("/k/%05d", i));
  Counted etcd(keys, std::string(64 << 10, 'v'));
  EXPECT_EQ(etcd.ReadAll("/k/", "/k0", 10'000), keys);
  EXPECT_LE(etcd.most_bytes(), 9 << 20);
}

TEST(EtcdPagerTest, ReadsOneKeyByOneCall) {
  Counted etcd({"/k/1", "/k/10", "/k/2"});
  EtcdPager::Pace pace{.prefix = 2, .record_bytes = 1};
  EXPECT_EQ(etcd.Read({.key = "/k/1"}, &pace).kvs.size(), 1u);
  EXPECT_FALSE(etcd.Read({.key = "/k/1"}, &pace).more);
  EXPECT_TRUE(etcd.Read({.key = "/k/3"}, &pace).kvs.empty());
  EXPECT_EQ(etcd.calls(), 3);
}

TEST(EtcdPagerTest, ReadsASmallRangeByOneCall) {
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(absl::StrCat("/k/", i));
  Counted etcd(keys);
  EtcdPager::Pace pace;
  EXPECT_EQ(etcd.Read({.key = "/k/", .end = "/k0"}, &pace).kvs.size(), 100u);
  EXPECT_TRUE(etcd.Read({.key = "/k/", .end = "/k0", .limit = 10}, &pace).more);
  EXPECT_TRUE(etcd.Read({.key = "/l/", .end = "/l0", .limit = 10}, &pace).kvs.empty());
  EXPECT_EQ(etcd.calls(), 3);
}

TEST(EtcdPagerTest, StaysAtTheRevisionThatItBeganWith) {
  EtcdPager pager({.key = "/k/", .end = "/k0", .limit = 1000}, {});
  EXPECT_EQ(pager.Next().revision, 0);
  RangeResult page;
  page.revision = 12;
  page.more = true;
  page.kvs.push_back({.key = "/k/1"});
  EXPECT_FALSE(pager.Take(page, 5, 10));
  EXPECT_EQ(pager.Next().revision, 12);
  EXPECT_EQ(pager.Next().key, std::string("/k/1\0", 5));
}

}  // namespace
}  // namespace capstan::store
