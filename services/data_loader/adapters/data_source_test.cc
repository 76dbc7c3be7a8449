// FileSource and the HTTP source by the port's conformance suite, and the latter's faults.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "services/data_loader/adapters/file_source.h"
#include "services/data_loader/adapters/http_source.h"
#include "services/data_loader/adapters/http_test_server.h"
#include "services/data_loader/ports/data_source_conformance.h"

namespace capstan::data_loader {
namespace {

namespace fs = std::filesystem;

class FileBench final : public DataSourceBench {
 public:
  void Put(const std::string& path, const std::string& bytes) override {
    const std::string target = folder_.path() + "/" + path;
    fs::create_directories(fs::path(target).parent_path());
    // Another file takes its place, as careful writers do.
    std::ofstream(folder_.path() + "/.new") << bytes;
    fs::rename(folder_.path() + "/.new", target);
  }
  void Remove(const std::string& path) override { fs::remove(folder_.path() + "/" + path); }
  std::unique_ptr<DataSource> Open() override {
    auto source = FileSource::Open("file://" + folder_.path() + "/", {folder_.path()});
    EXPECT_TRUE(source.ok()) << source.status();
    return std::make_unique<FileSource>(*std::move(source));
  }

 private:
  TemporaryFolder folder_;
};

// A web server whose answers a test may spoil.
class HttpBench final : public DataSourceBench {
 public:
  HttpBench() : server_([this](const TestRequest& request) { return Serve(request); }) {
    options_.allowed_url_prefixes = {server_.url() + "/data/"};
    options_.allowed_addresses = {"127.0.0.1"};
    options_.first_pause = absl::Milliseconds(100);
  }

  void Put(const std::string& path, const std::string& bytes) override {
    absl::MutexLock lock(&mutex_);
    objects_.Put("/data/" + absl::StrReplaceAll(path, {{" ", "%20"}}), bytes);
  }
  void Remove(const std::string& path) override {
    absl::MutexLock lock(&mutex_);
    objects_.Remove("/data/" + path);
  }
  std::unique_ptr<DataSource> Open() override { return *OpenUri(server_.url() + "/data/"); }
  absl::StatusOr<std::unique_ptr<DataSource>> OpenUri(const std::string& uri) {
    return OpenHttpSource(
        uri, &options_, &stop_,
        [this](absl::Duration pause) {
          absl::MutexLock lock(&mutex_);
          pauses_.push_back(pause);
        },
        1);
  }

  // Sees every request with the right answer, and may change it.
  using Spoil = std::function<void(const TestRequest&, TestReply&)>;
  void SetSpoil(Spoil spoil) {
    absl::MutexLock lock(&mutex_);
    spoil_ = std::move(spoil);
  }
  const HttpTestServer& server() const { return server_; }
  HttpOptions& options() { return options_; }
  std::atomic<bool>& stop() { return stop_; }
  std::vector<absl::Duration>& pauses() { return pauses_; }

 private:
  TestReply Serve(const TestRequest& request) {
    absl::MutexLock lock(&mutex_);
    TestReply reply = objects_.Serve(request);
    if (spoil_) spoil_(request, reply);
    return reply;
  }

  absl::Mutex mutex_;
  TestObjects objects_ ABSL_GUARDED_BY(mutex_);
  Spoil spoil_ ABSL_GUARDED_BY(mutex_);
  HttpOptions options_;
  std::atomic<bool> stop_ = false;
  std::vector<absl::Duration> pauses_;
  HttpTestServer server_;
};

INSTANTIATE_TEST_SUITE_P(File, DataSourceConformanceTest,
                         ::testing::Values([] { return std::make_unique<FileBench>(); }));
INSTANTIATE_TEST_SUITE_P(Http, DataSourceConformanceTest,
                         ::testing::Values([] { return std::make_unique<HttpBench>(); }));

class HttpSourceTest : public ::testing::Test {
 protected:
  HttpSourceTest() {
    for (size_t i = 0; i < big_.size(); ++i) big_[i] = static_cast<char>(i * 31 % 251);
    bench_.Put("big", big_);
    source_ = bench_.Open();
  }
  LoadPlan::File Planned(const std::string& object = "big") {
    auto files = source_->List({object});
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? files->front() : LoadPlan::File();
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
  absl::Status ListOf(const std::string& uri, const std::vector<std::string>& objects = {}) {
    const auto source = bench_.OpenUri(uri);
    if (!source.ok()) return source.status();
    return (*source)->List(objects).status();
  }

  std::string big_ = std::string(200'000, '\0');
  HttpBench bench_;
  std::unique_ptr<DataSource> source_;
};

TEST_F(HttpSourceTest, ATornBodyIsGoneOnWithWhereItEnded) {
  const LoadPlan::File file = Planned();
  std::vector<std::string> ranges;
  bench_.SetSpoil([&ranges](const TestRequest& request, TestReply& reply) {
    ranges.push_back(request.headers.at("range"));
    if (ranges.size() <= 3) reply.cut_after = 30'000;
  });
  EXPECT_EQ(*Read(file, 1000, 150'000), big_.substr(1000, 150'000));
  EXPECT_EQ(ranges, (std::vector<std::string>{"bytes=1000-150999", "bytes=31000-150999",
                                              "bytes=61000-150999", "bytes=91000-150999"}));
  EXPECT_EQ(bench_.pauses().size(), 3u);
}

TEST_F(HttpSourceTest, StatusesAreTriedAgainByTheirClassWithGrowingPauses) {
  const LoadPlan::File file = Planned();
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    bench_.pauses().clear();
    bench_.SetSpoil([status, n = 0](const TestRequest&, TestReply& reply) mutable {
      if (n++ < 2) reply = {.status = status, .headers = {}, .body = "busy"};
    });
    EXPECT_EQ(*Read(file, 0, 10), big_.substr(0, 10)) << status;
    ASSERT_EQ(bench_.pauses().size(), 2u);
    EXPECT_GE(bench_.pauses()[0], absl::Milliseconds(50));
    EXPECT_LE(bench_.pauses()[0], absl::Milliseconds(100));
    EXPECT_GE(bench_.pauses()[1], absl::Milliseconds(100));
  }
  for (const int status : {400, 401, 403, 451, 501, 204}) {
    bench_.pauses().clear();
    bench_.SetSpoil([status](const TestRequest&, TestReply& reply) {
      reply = {.status = status, .headers = {}, .body = ""};
    });
    EXPECT_EQ(status::Reason(Read(file, 0, 10).status()), absl::StrCat("HTTP_", status));
    EXPECT_TRUE(bench_.pauses().empty()) << status;
  }
}

TEST_F(HttpSourceTest, AttemptsAndBudgetAreBoundedAndRetryAfterIsRespected) {
  const LoadPlan::File file = Planned();
  bench_.SetSpoil([](const TestRequest&, TestReply& reply) {
    reply = {.status = 503, .headers = {{"Retry-After", "7"}}, .body = ""};
  });
  const absl::Status busy = Read(file, 0, 10).status();
  EXPECT_EQ(status::Reason(busy), "RETRIES_EXHAUSTED") << busy;
  EXPECT_TRUE(absl::StrContains(busy.message(), "503")) << busy;
  ASSERT_EQ(static_cast<int>(bench_.pauses().size()), bench_.options().attempts - 1);
  for (const absl::Duration pause : bench_.pauses()) EXPECT_EQ(pause, absl::Seconds(7));
  bench_.pauses().clear();
  bench_.SetSpoil([](const TestRequest&, TestReply& reply) {
    reply = {.status = 429, .headers = {{"Retry-After", "86400"}}, .body = ""};
  });
  EXPECT_EQ(status::Reason(Read(file, 0, 10).status()), "RETRIES_EXHAUSTED");
  EXPECT_TRUE(bench_.pauses().empty());
  // A load that fails everywhere is not tried again for ever.
  bench_.SetSpoil([](const TestRequest&, TestReply& reply) {
    reply = {.status = 500, .headers = {}, .body = ""};
  });
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(Read(file, 0, 10).ok());
  EXPECT_LE(static_cast<int>(bench_.pauses().size()), bench_.options().retry_budget);
}

TEST(HttpProbeTest, ObjectsAreProbedSomeAtOnceAndNoMore) {
  constexpr int kAtOnce = 4;
  absl::Mutex mutex;
  TestObjects objects;
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) {
    names.push_back(absl::StrCat("o", i));
    objects.Put("/data/" + names.back(), std::string(static_cast<size_t>(i), 'x'));
  }
  int inside = 0;
  int most = 0;
  HttpTestServer server(
      [&](const TestRequest& request) {
        absl::MutexLock lock(&mutex);
        most = std::max(most, ++inside);
        // One after the other they would never be so many.
        const auto full = [&] { return most >= kAtOnce; };
        mutex.AwaitWithTimeout(absl::Condition(&full), absl::Seconds(10));
        --inside;
        return objects.Serve(request);
      },
      /*concurrent=*/true);
  HttpOptions options;
  options.allowed_url_prefixes = {server.url() + "/data/"};
  options.allowed_addresses = {"127.0.0.1"};
  options.probes = kAtOnce;
  const std::atomic<bool> stop = false;
  const auto source =
      OpenHttpSource(server.url() + "/data/", &options, &stop, [](absl::Duration) {}, 1);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto files = (*source)->List(names);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), names.size());
  for (const LoadPlan::File& file : *files) {
    EXPECT_EQ(absl::StrCat("o", file.size_bytes()), file.path());
  }
  EXPECT_EQ(most, kAtOnce);
  names.push_back("absent");
  const auto none = (*source)->List(names);
  EXPECT_EQ(status::Reason(none.status()), "OBJECT_NOT_FOUND");
}

TEST_F(HttpSourceTest, LyingAnswersAreFoundOut) {
  const LoadPlan::File file = Planned();
  const auto reason = [&](HttpBench::Spoil spoil) {
    bench_.SetSpoil(std::move(spoil));
    return status::Reason(Read(file, 1000, 10).status());
  };
  using Q = TestRequest;
  EXPECT_EQ(reason([](const Q&, TestReply& r) { r.headers["Content-Range"] = "bytes 0-9/200000"; }),
            "LYING_ANSWER");
  EXPECT_EQ(reason([](const Q&, TestReply& r) { r.headers["Content-Range"] = "nonsense"; }),
            "LYING_ANSWER");
  EXPECT_EQ(reason([](const Q&, TestReply& r) { r.headers.erase("Content-Range"); }),
            "LYING_ANSWER");
  EXPECT_EQ(
      reason([](const Q&, TestReply& r) { r.headers["Content-Range"] = "bytes 1000-1009/77"; }),
      "LYING_ANSWER");
  EXPECT_EQ(
      reason([](const Q&, TestReply& r) { r.headers["Content-Range"] = "bytes 1000-1009/200001"; }),
      "SOURCE_CHANGED");
  // More bytes than asked for, in a range that says otherwise.
  EXPECT_EQ(reason([](const Q&, TestReply& r) { r.body += "more"; }), "LYING_ANSWER");
  // The whole object where a range was asked for.
  EXPECT_EQ(reason([this](const Q&, TestReply& r) {
              r.status = 200;
              r.headers.erase("Content-Range");
              r.body = big_;
            }),
            "LYING_ANSWER");
  EXPECT_EQ(reason([](const Q&, TestReply& r) { r.headers["Content-Encoding"] = "gzip"; }),
            "SOURCE_ENCODED");
  // A server that ignores If-Match is found out by its own ETag.
  EXPECT_EQ(reason([](const Q&, TestReply& r) { r.headers["ETag"] = "\"other\""; }),
            "SOURCE_CHANGED");
  // A Content-Length beyond the body is a torn body.
  bench_.SetSpoil([n = 0](const Q&, TestReply& r) mutable {
    if (n++ == 0) r.content_length = 1'000'000;
  });
  EXPECT_EQ(*Read(file, 1000, 10), big_.substr(1000, 10));
}

TEST_F(HttpSourceTest, WhatCannotBeKnownOrCheckedIsRefused) {
  const auto reason = [&](HttpBench::Spoil spoil) {
    bench_.SetSpoil(std::move(spoil));
    return status::Reason(source_->List({"big"}).status());
  };
  EXPECT_EQ(reason([](const TestRequest&, TestReply& r) { r.headers.erase("ETag"); }),
            "SOURCE_UNVERIFIABLE");
  EXPECT_EQ(reason([](const TestRequest&, TestReply& r) {
              r.status = 200;
              r.headers.erase("Content-Range");
              r.content_length = -1;
            }),
            "SIZE_UNKNOWN");
  EXPECT_EQ(reason([](const TestRequest&, TestReply& r) { r.headers["Content-Encoding"] = "br"; }),
            "SOURCE_ENCODED");
  bench_.SetSpoil(nullptr);
  EXPECT_EQ(status::Reason(source_->List({}).status()), "OBJECTS_NEEDED");
}

TEST_F(HttpSourceTest, AServerWithoutRangesGivesObjectsWholeAlsoWhenTorn) {
  bench_.SetSpoil([this, n = 0](const TestRequest&, TestReply& reply) mutable {
    reply.status = 200;
    reply.headers.erase("Content-Range");
    reply.headers.erase("ETag");
    reply.headers["Last-Modified"] = "Sat, 01 Jan 2022 00:00:00 GMT";
    reply.body = big_;
    if (++n == 2) reply.cut_after = 70'000;
  });
  const LoadPlan::File file = Planned();
  EXPECT_TRUE(file.whole());
  EXPECT_EQ(*Read(file, 0, 200'000), big_);
  EXPECT_TRUE(source_->CheckUnchanged(file).ok());
}

TEST_F(HttpSourceTest, OnlyAllowedUrlsAreAskedAlsoByRedirects) {
  const std::string base = bench_.server().url();
  EXPECT_EQ(status::Reason(ListOf(base + "/secret/a")), "SOURCE_NOT_ALLOWED");
  EXPECT_EQ(status::Reason(ListOf(base + "/database/a")), "SOURCE_NOT_ALLOWED");
  EXPECT_EQ(status::Reason(ListOf("http://localhost/data/a")), "SOURCE_NOT_ALLOWED");
  EXPECT_EQ(status::Reason(ListOf(base + "/data/../secret/a")), "INVALID_URL");
  EXPECT_EQ(status::Reason(ListOf(absl::StrReplaceAll(base, {{"://", "://u:p@"}}) + "/data/a")),
            "INVALID_URL");
  std::string location = "/data/big";
  std::vector<std::string> targets;
  bench_.SetSpoil([&](const TestRequest& request, TestReply& reply) {
    targets.push_back(request.target);
    if (!absl::StartsWith(request.target, "/data/moved")) return;
    reply = {.status = 302, .headers = {{"Location", location}}, .body = ""};
  });
  EXPECT_TRUE(ListOf(base + "/data/moved").ok());
  for (const std::string& other :
       {std::string("/secret/a"), std::string("//evil.example/data/a"),
        std::string("http://169.254.169.254/latest/meta-data"), std::string("file:///etc/passwd"),
        std::string("/data/../secret")}) {
    location = other;
    targets.clear();
    EXPECT_FALSE(ListOf(base + "/data/moved").ok()) << other;
    EXPECT_EQ(targets, std::vector<std::string>{"/data/moved"}) << other;
  }
  location = "/data/moved2";
  EXPECT_EQ(status::Reason(ListOf(base + "/data/moved")), "TOO_MANY_REDIRECTS");
}

TEST_F(HttpSourceTest, SpecialAddressesAreNotConnectedToUnlessAllowed) {
  bench_.options().allowed_addresses.clear();
  const absl::Status refused = ListOf(bench_.server().url() + "/data/big");
  EXPECT_EQ(status::Reason(refused), "ADDRESS_NOT_ALLOWED") << refused;
}

TEST_F(HttpSourceTest, AnIndexNamesObjectsSizesAndDigests) {
  bench_.Put("sub/b", "bb");
  const std::string hex = absl::BytesToHexString(Sha256::Of("bb"));
  const auto index = [&](const std::string& text) {
    bench_.Put("list.index", text);
    auto source = bench_.OpenUri(bench_.server().url() + "/data/list.index");
    return (*source)->List({});
  };
  const auto files = index(
      absl::StrCat("# corpus\n", bench_.server().url(), "/data/big\nsub/b 2 sha256:", hex, "\n"));
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].path(), "big");
  EXPECT_EQ((*files)[1].path(), "sub/b");
  EXPECT_EQ((*files)[1].sha256(), Sha256::Of("bb"));
  EXPECT_EQ(status::Reason(index("sub/b 3 -\n").status()), "SOURCE_CHANGED");
  EXPECT_EQ(status::Reason(index("gone 3 -\n").status()), "OBJECT_NOT_FOUND");
  EXPECT_EQ(status::Reason(index("http://evil.example/a\n").status()), "SOURCE_NOT_ALLOWED");
  EXPECT_EQ(status::Reason(index("../secret 3 -\n").status()), "INVALID_INDEX");
  EXPECT_EQ(status::Reason(index("a b\n").status()), "INVALID_INDEX");
}

TEST_F(HttpSourceTest, AQueryIsSentButNeverShown) {
  bench_.SetSpoil([](const TestRequest&, TestReply& reply) {
    reply = {.status = 403, .headers = {}, .body = ""};
  });
  const absl::Status refused = ListOf(bench_.server().url() + "/data/big?token=s3cret");
  EXPECT_EQ(status::Reason(refused), "HTTP_403");
  EXPECT_FALSE(absl::StrContains(refused.ToString(), "s3cret")) << refused;
}

TEST_F(HttpSourceTest, ASilentServerIsLeftAndAStoppedLoadEnds) {
  const LoadPlan::File file = Planned();
  bench_.stop() = true;
  EXPECT_TRUE(absl::IsCancelled(Read(file, 0, 10).status()));
  bench_.stop() = false;
  bench_.options().attempts = 1;
  bench_.options().connect_timeout = absl::Milliseconds(200);
  // A port at which nobody listens.
  bench_.options().allowed_url_prefixes.push_back("http://127.0.0.1:1/");
  EXPECT_EQ(status::Reason(ListOf("http://127.0.0.1:1/a")), "RETRIES_EXHAUSTED");
}

}  // namespace
}  // namespace capstan::data_loader
