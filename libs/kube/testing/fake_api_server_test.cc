#include "libs/kube/testing/fake_api_server.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/objects/protobuf_envelope.h"
#include "libs/kube/testing/collected_response.h"
#include "libs/kube/testing/json.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/kube/watch/decoder.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube::testing {
namespace {

constexpr char kMaps[] = "/api/v1/namespaces/default/configmaps";

class FakeApiServerTest : public ::testing::Test {
 protected:
  FakeApiServerTest() : server_(Options(), &strand_), transport_(server_.NewTransport()) {}

  static FakeApiServerOptions Options() {
    FakeApiServerOptions options;
    options.converter = &BuiltinConverter();
    return options;
  }
  std::unique_ptr<CollectedResponse> Start(HttpRequest request) {
    return std::make_unique<CollectedResponse>(transport_.get(), std::move(request), [this] {
      if (!may_advance_) {
        server_.RunUntilIdle();
        may_advance_ = true;
        return true;
      }
      may_advance_ = false;
      return false;
    });
  }
  std::unique_ptr<CollectedResponse> Get(const std::string& target,
                                         const std::string& accept = "") {
    HttpRequest request;
    request.target = target;
    request.timeout = absl::InfiniteDuration();
    if (!accept.empty()) request.headers.push_back({"Accept", accept});
    return Start(std::move(request));
  }
  std::unique_ptr<CollectedResponse> Post(const std::string& name) {
    HttpRequest request;
    request.method = "POST";
    request.target = kMaps;
    request.body = absl::StrCat(R"({"metadata":{"name":")", name, R"("}})");
    return Start(std::move(request));
  }
  void Advance(absl::Duration d) { server_.AdvanceTo(clock_.Read().boot + d); }
  void Create(const std::string& name) {
    server_.Use([&](FakeApiState& state) {
      ASSERT_TRUE(state
                      .Create(*state.FindType("", "v1", "configmaps"), "default",
                              {{"metadata", {{"name", name}}}})
                      .ok());
    });
    server_.RunUntilIdle();
  }
  void Fail(FaultAction action, RequestMatcher matcher = {}) {
    Fault fault;
    fault.matcher = std::move(matcher);
    fault.action = std::move(action);
    server_.AddFault(std::move(fault));
  }
  int64_t Revision() {
    int64_t revision = 0;
    server_.Use([&](FakeApiState& state) { revision = state.store().revision(); });
    return revision;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  FakeApiServer server_;
  std::unique_ptr<Transport> transport_;
  bool may_advance_ = false;
};

TEST_F(FakeApiServerTest, AnswersNothingInline) {
  auto get = Get("/version");
  EXPECT_FALSE(get->ended());
  server_.RunUntilIdle();
  ASSERT_TRUE(get->ended());
  EXPECT_EQ(get->head().status, 200);
}

TEST_F(FakeApiServerTest, FaultsThatAnswer) {
  for (const int code : {401, 403, 404, 409, 410, 429, 500, 502, 503, 504}) {
    Fail(Answer{Plain(code, "a fault", code == 429 ? absl::Seconds(7) : absl::ZeroDuration())});
    auto get = Get(kMaps);
    server_.RunUntilIdle();
    EXPECT_EQ(get->head().status, code);
    const Json status = ParseJson(get->body());
    EXPECT_EQ(status["kind"], "Status");
    EXPECT_EQ(status["code"], code);
    EXPECT_EQ(FindHeader(get->head().headers, "Retry-After").value_or(""), code == 429 ? "7" : "");
  }
  auto get = Get(kMaps);
  server_.RunUntilIdle();
  EXPECT_EQ(get->head().status, 200);
}

TEST_F(FakeApiServerTest, FaultsSayWhetherTheWriteTookEffect) {
  struct Row {
    FaultAction action;
    const char* reason;
    bool took_effect;
  };
  int i = 0;
  for (const Row& row : std::vector<Row>{{NotSent{}, kNotSent, false},
                                         {BrokenBefore{}, kBroken, false},
                                         {BrokenAfter{}, kBroken, true}}) {
    Fail(row.action);
    const std::string name = absl::StrCat("a", ++i);
    auto post = Post(name);
    server_.RunUntilIdle();
    EXPECT_EQ(status::Reason(post->end()), row.reason);
    EXPECT_EQ(post->head().status, 0);
    auto get = Get(absl::StrCat(kMaps, "/", name));
    server_.RunUntilIdle();
    EXPECT_EQ(get->head().status, row.took_effect ? 200 : 404);
  }
}

TEST_F(FakeApiServerTest, DelaysHangsAndTimeouts) {
  Fail(Delayed{absl::Seconds(5)});
  auto slow = Get(kMaps);
  Advance(absl::Seconds(4));
  EXPECT_FALSE(slow->ended());
  Advance(absl::Seconds(1));
  EXPECT_TRUE(slow->end().ok());

  Fail(Hang{});
  HttpRequest request;
  request.target = kMaps;
  request.timeout = absl::Seconds(10);
  auto hung = Start(request);
  Advance(absl::Seconds(9));
  EXPECT_FALSE(hung->ended());
  Advance(absl::Seconds(1));
  EXPECT_EQ(hung->end().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status::Reason(hung->end()), kTimedOut);
}

TEST_F(FakeApiServerTest, IdleTimeoutCountsFromTheLastByte) {
  HttpRequest request;
  request.target = absl::StrCat(kMaps, "?watch=true&resourceVersion=", Revision());
  request.timeout = absl::InfiniteDuration();
  request.idle_timeout = absl::Seconds(10);
  auto watch = Start(request);
  Advance(absl::Seconds(8));
  Create("a");
  Advance(absl::Seconds(8));
  EXPECT_FALSE(watch->ended());
  Advance(absl::Seconds(3));
  EXPECT_EQ(status::Reason(watch->end()), kTimedOut);
}

TEST_F(FakeApiServerTest, TornAndSlowBodies) {
  Fail(Torn{7});
  auto torn = Get(kMaps);
  server_.RunUntilIdle();
  EXPECT_EQ(torn->body().size(), 7u);
  EXPECT_EQ(status::Reason(torn->end()), kBroken);

  Fail(Slow{1, absl::Seconds(1)});
  auto slow = Get("/api");
  Advance(absl::Seconds(3));
  EXPECT_EQ(slow->body().size(), 4u);
  Advance(absl::Minutes(10));
  EXPECT_TRUE(slow->end().ok());
  EXPECT_FALSE(ParseJson(slow->body()).is_discarded());
}

TEST_F(FakeApiServerTest, StaleListsShowThePast) {
  Create("a");
  const int64_t then = Revision();
  Create("b");
  Fail(Stale{1});
  auto list = Get(absl::StrCat(kMaps, "?fieldSelector=metadata.name%3Db"));
  server_.RunUntilIdle();
  const Json body = ParseJson(list->body());
  EXPECT_TRUE(body["items"].empty());
  EXPECT_EQ(body["metadata"]["resourceVersion"], absl::StrCat(then));
}

TEST_F(FakeApiServerTest, CompactionExpiresWatchesAndPages) {
  Create("a");
  const int64_t old = Revision();
  auto page = Get(absl::StrCat(kMaps, "?limit=1"));
  server_.RunUntilIdle();
  const std::string token = Text(Find(ParseJson(page->body()), {"metadata", "continue"}));
  ASSERT_FALSE(token.empty());
  Create("b");
  server_.CompactNow();

  auto watch = Get(absl::StrCat(kMaps, "?watch=true&resourceVersion=", old));
  server_.RunUntilIdle();
  EXPECT_EQ(watch->head().status, 200);
  const Json event = ParseJson(watch->body());
  EXPECT_EQ(event["type"], "ERROR");
  EXPECT_EQ(event["object"]["code"], 410);
  EXPECT_EQ(event["object"]["reason"], "Expired");
  EXPECT_TRUE(watch->end().ok());

  page = Get(absl::StrCat(kMaps, "?limit=1&continue=", token));
  server_.RunUntilIdle();
  EXPECT_EQ(page->head().status, 410);
  // The token in the answer goes on with the newest state.
  const std::string rest = Text(Find(ParseJson(page->body()), {"metadata", "continue"}));
  page = Get(absl::StrCat(kMaps, "?continue=", rest));
  server_.RunUntilIdle();
  EXPECT_EQ(page->head().status, 200);

  auto exact = Get(absl::StrCat(kMaps, "?resourceVersionMatch=Exact&resourceVersion=", old));
  server_.RunUntilIdle();
  EXPECT_EQ(exact->head().status, 410);
}

TEST_F(FakeApiServerTest, BookmarksComeOnTheirOwnAndBeforeTheEnd) {
  auto watch = Get(absl::StrCat(
      kMaps,
      "?watch=true&allowWatchBookmarks=true&timeoutSeconds=90&resourceVersion=", Revision()));
  server_.Use([](FakeApiState& state) {
    (void)state.Create(*state.FindType("", "v1", "secrets"), "default",
                       {{"metadata", {{"name", "other"}}}});
  });
  Advance(absl::Seconds(61));
  const std::string one = watch->body();
  EXPECT_EQ(ParseJson(one)["type"], "BOOKMARK");
  EXPECT_EQ(ParseJson(one)["object"]["metadata"]["resourceVersion"], absl::StrCat(Revision()));
  Advance(absl::Seconds(28));
  EXPECT_GT(watch->body().size(), one.size());
  EXPECT_FALSE(watch->ended());
  Advance(absl::Seconds(1));
  EXPECT_TRUE(watch->end().ok());
}

TEST_F(FakeApiServerTest, WatchesEndAsAsked) {
  const std::string target = absl::StrCat(kMaps, "?watch=true&resourceVersion=", Revision());
  RequestMatcher watches;
  watches.watch = true;
  Fail(ExpireWatch{1}, watches);
  auto expired = Get(target);
  // A request takes all faults that are for it when it arrives.
  server_.RunUntilIdle();
  Fail(CloseWatch{1}, watches);
  auto closed = Get(target);
  server_.RunUntilIdle();
  Fail(Torn{10}, watches);
  auto torn = Get(target);
  server_.RunUntilIdle();
  auto broken = Get(target);
  server_.RunUntilIdle();
  EXPECT_EQ(server_.counters().open_watches, 4);
  Create("a");
  EXPECT_TRUE(absl::StrContains(expired->body(), "\"code\":410"));
  EXPECT_TRUE(expired->end().ok());
  EXPECT_FALSE(absl::StrContains(closed->body(), "ERROR"));
  EXPECT_TRUE(closed->end().ok());
  EXPECT_EQ(torn->body().size(), 10u);
  EXPECT_EQ(status::Reason(torn->end()), kBroken);
  server_.Restart();
  server_.RunUntilIdle();
  EXPECT_EQ(status::Reason(broken->end()), kBroken);
  auto again = Get(target);
  server_.RunUntilIdle();
  EXPECT_TRUE(absl::StrContains(again->body(), "ADDED"));
  server_.CloseWatches(/*expired=*/true);
  server_.RunUntilIdle();
  EXPECT_TRUE(absl::StrContains(again->body(), "\"code\":410"));
  EXPECT_TRUE(again->end().ok());
}

TEST_F(FakeApiServerTest, ListsWaitForARevisionThatIsToCome) {
  auto list = Get(
      absl::StrCat(kMaps, "?resourceVersionMatch=NotOlderThan&resourceVersion=", Revision() + 1));
  Advance(absl::Seconds(1));
  EXPECT_FALSE(list->ended());
  Create("a");
  ASSERT_TRUE(list->ended());
  EXPECT_EQ(list->head().status, 200);
}

TEST_F(FakeApiServerTest, SpeaksProtobufOfBuiltinTypes) {
  Create("a");
  auto get = Get(absl::StrCat(kMaps, "/a"), "application/vnd.kubernetes.protobuf,application/json");
  auto list = Get(kMaps, "application/vnd.kubernetes.protobuf");
  auto none = Get(absl::StrCat(kMaps, "/none"), "application/vnd.kubernetes.protobuf");
  auto watch = Get(absl::StrCat(kMaps, "?watch=true&resourceVersion=", Revision()),
                   "application/vnd.kubernetes.protobuf;stream=watch");
  server_.RunUntilIdle();
  const std::string body = get->body();
  const auto envelope = ParseProtobufEnvelope(body);
  ASSERT_TRUE(envelope.ok()) << envelope.status() << body;
  EXPECT_EQ(envelope->kind, "ConfigMap");
  const std::string list_body = list->body();
  const auto list_envelope = ParseProtobufEnvelope(list_body);
  ASSERT_TRUE(list_envelope.ok());
  EXPECT_EQ(list_envelope->kind, "ConfigMapList");
  const auto items = ParseProtobufList(list_envelope->raw);
  ASSERT_TRUE(items.ok());
  EXPECT_EQ(items->items.size(), 2u);
  EXPECT_EQ(items->resource_version, absl::StrCat(Revision()));
  const std::string none_body = none->body();
  const auto status = ParseProtobufEnvelope(none_body);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->kind, "Status");
  EXPECT_EQ(none->head().status, 404);

  Create("b");
  watch::ProtobufDecoder decoder;
  decoder.Append(watch->body());
  const auto event = decoder.Next();
  ASSERT_TRUE(event.ok() && event->has_value());
  EXPECT_EQ((*event)->type, watch::EventType::kAdded);
  EXPECT_EQ((*event)->kind, "ConfigMap");
  const auto json = BuiltinConverter().ToJson("v1", "ConfigMap", (*event)->object);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(ParseJson(*json)["metadata"]["name"], "b");

  HttpRequest post;
  post.method = "POST";
  post.target = kMaps;
  post.headers = {{"Content-Type", "application/vnd.kubernetes.protobuf"}};
  post.body = body;
  auto posted = Start(post);
  server_.RunUntilIdle();
  // What came back has a resource version.
  EXPECT_EQ(posted->head().status, 500);
  // Custom resources have JSON alone.
  auto refused = Get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                     "application/vnd.kubernetes.protobuf");
  server_.RunUntilIdle();
  EXPECT_EQ(refused->head().status, 406);
}

TEST_F(FakeApiServerTest, RecordsRequestsWithoutSecrets) {
  HttpRequest request;
  request.target = kMaps;
  request.headers = {{"authorization", "Bearer hush"}, {"X-Mine", "1"}};
  auto get = Start(request);
  auto post = Post("a");
  server_.RunUntilIdle();
  const auto records = server_.requests();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].headers, (std::vector<HttpHeader>{{"X-Mine", "1"}}));
  EXPECT_EQ(records[1].method, "POST");
  EXPECT_NE(records[1].body_hash, records[0].body_hash);
  RequestMatcher posts;
  posts.method = "POST";
  EXPECT_EQ(server_.CountRequests(posts), 1);
  EXPECT_EQ(server_.counters().answers[201], 1);
}

TEST_F(FakeApiServerTest, RefusesWhatIsNoRequest) {
  HttpRequest request;
  request.target = kMaps;
  request.headers = {{"X", "a\r\nY: b"}};
  auto get = Start(request);
  server_.RunUntilIdle();
  EXPECT_EQ(status::Reason(get->end()), kBadRequest);
  EXPECT_EQ(server_.counters().requests, 0);
}

TEST_F(FakeApiServerTest, DestroyingATransportEndsItsCalls) {
  auto watch = Get(absl::StrCat(kMaps, "?watch=true&resourceVersion=", Revision()));
  server_.RunUntilIdle();
  transport_ = nullptr;
  EXPECT_EQ(watch->end().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status::Reason(watch->end()), kStopped);
}

// Takes one piece at a time, and its own call away at the last.
class Picky final : public ResponseHandler {
 public:
  void OnHead(HttpHead) override { ++heads; }
  bool OnBytes(absl::string_view bytes) override {
    body.append(bytes.data(), bytes.size());
    if (destroy) call = nullptr;
    return false;
  }
  void OnEnd(absl::Status) override { ++ends; }

  std::unique_ptr<Call> call;
  std::string body;
  int heads = 0;
  int ends = 0;
  bool destroy = false;
};

TEST_F(FakeApiServerTest, AHandlerThatWantsNoMoreIsLeftAlone) {
  Picky picky;
  HttpRequest request;
  request.target = absl::StrCat(kMaps, "?watch=true&resourceVersion=", Revision());
  request.timeout = absl::InfiniteDuration();
  request.idle_timeout = absl::Seconds(5);
  picky.call = transport_->Start(request, &picky);
  server_.RunUntilIdle();
  Create("a");
  const size_t one = picky.body.size();
  EXPECT_GT(one, 0u);
  Create("b");
  Advance(absl::Seconds(60));
  EXPECT_EQ(picky.body.size(), one);
  EXPECT_EQ(picky.ends, 0);
  picky.destroy = true;
  picky.call->Resume();
  server_.RunUntilIdle();
  EXPECT_TRUE(absl::StrContains(picky.body, "\"b\""));
  EXPECT_EQ(picky.call, nullptr);
  Create("c");
  EXPECT_FALSE(absl::StrContains(picky.body, "\"c\""));
  EXPECT_EQ(picky.ends, 0);
}

}  // namespace
}  // namespace capstan::kube::testing
