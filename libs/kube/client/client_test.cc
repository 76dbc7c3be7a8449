#include "libs/kube/client/client.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/response.h"
#include "libs/kube/client/scripted_transport.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube {
namespace {

ApiRequest Request(Repeat repeat = Repeat::kHarmless) {
  ApiRequest request;
  request.target = "/api/v1/pods?limit=1";
  request.repeat = repeat;
  return request;
}

absl::Status NotSent() {
  return status::Error(absl::StatusCode::kUnavailable, kNotSent, "no connection");
}

class ClientTest : public ::testing::Test {
 protected:
  void MakeClient(ClientOptions options = {}) {
    client_ = std::make_unique<Client>(&transport_, &strand_, &random_, std::move(options));
  }
  Client::Done Keep() {
    return [this](absl::StatusOr<ApiResponse> response) { result_ = std::move(response); };
  }
  // Until nothing is left to do at this time.
  void Settle() {
    do {
      strand_.RunReady();
    } while (transport_.open() > 0 && transport_.Step());
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  Random random_{7};
  std::vector<ScriptedReply> replies_;
  ScriptedTransport transport_{[this](const HttpRequest&) {
    if (replies_.empty()) return ScriptedReply{};
    ScriptedReply reply = replies_.front();
    replies_.erase(replies_.begin());
    return reply;
  }};
  std::unique_ptr<Client> client_;
  absl::optional<absl::StatusOr<ApiResponse>> result_;
};

TEST_F(ClientTest, GivesTheWholeBodyAndTheHeaders) {
  MakeClient();
  replies_ = {{201, "a body of more than one piece", {{"X", "y"}}, absl::OkStatus()}};
  const auto call = client_->Start(Request(), Keep());
  EXPECT_TRUE(transport_.requests.empty()) << "started inline";
  Settle();
  ASSERT_TRUE(result_.has_value());
  ASSERT_TRUE(result_->ok()) << result_->status();
  EXPECT_EQ((*result_)->http_status, 201);
  EXPECT_EQ((*result_)->body, "a body of more than one piece");
  EXPECT_EQ((*result_)->headers, (std::vector<HttpHeader>{{"X", "y"}}));
  ASSERT_EQ(transport_.requests.size(), 1u);
  // The transport says who we are, and refuses a second opinion.
  EXPECT_EQ(FindHeader(transport_.requests[0].headers, "User-Agent"), absl::nullopt);
  EXPECT_EQ(transport_.requests[0].timeout, absl::Seconds(30));
}

TEST_F(ClientTest, NamesTheCallInItsErrorButNotTheQuery) {
  MakeClient();
  replies_ = {{404, "", {}, absl::OkStatus()}};
  const auto call = client_->Start(Request(), Keep());
  Settle();
  EXPECT_EQ(status::Reason(result_->status()), kApiMissing);
  EXPECT_TRUE(absl::StartsWith(result_->status().message(), "GET /api/v1/pods: "));
}

TEST_F(ClientTest, RepeatsWhatMayBeRepeated) {
  MakeClient();
  replies_ = {{0, "", {}, NotSent()}, {429, "", {{"Retry-After", "5"}}, absl::OkStatus()}, {}};
  const BootTime start = clock_.Read().boot;
  const auto call = client_->Start(Request(Repeat::kHarmful), Keep());
  Settle();
  EXPECT_FALSE(result_.has_value());
  while (strand_.RunNext()) Settle();
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(result_->ok()) << result_->status();
  EXPECT_EQ(transport_.requests.size(), 3u);
  EXPECT_GE(clock_.Read().boot - start, absl::Seconds(5));
}

TEST_F(ClientTest, DoesNotRepeatWhatIsHarmful) {
  MakeClient();
  replies_ = {{0, "", {}, status::Error(absl::StatusCode::kUnavailable, kBroken, "x")}};
  const auto call = client_->Start(Request(Repeat::kHarmful), Keep());
  Settle();
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(status::Reason(result_->status()), kBroken);
  EXPECT_EQ(transport_.requests.size(), 1u);
}

TEST_F(ClientTest, EndsByItsTotalTimeout) {
  MakeClient();
  ApiRequest request = Request();
  request.timeout = absl::Seconds(3);
  replies_.assign(100, {503, "", {{"Retry-After", "1"}}, absl::OkStatus()});
  const BootTime start = clock_.Read().boot;
  const auto call = client_->Start(std::move(request), Keep());
  do {
    Settle();
  } while (strand_.RunNext());
  ASSERT_TRUE(result_.has_value());
  EXPECT_EQ(result_->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LE(clock_.Read().boot - start, absl::Seconds(3));
  EXPECT_GT(transport_.requests.size(), 1u);
  for (const HttpRequest& sent : transport_.requests) EXPECT_LE(sent.timeout, absl::Seconds(3));
}

TEST_F(ClientTest, BoundsBodies) {
  ClientOptions options;
  options.max_response_bytes = 20;
  MakeClient(options);
  replies_ = {{200, std::string(20, 'x'), {}, absl::OkStatus()},
              {200, std::string(21, 'x'), {}, absl::OkStatus()},
              {422, std::string(kMaxErrorBytes + 100, 'x'), {}, absl::OkStatus()}};
  auto call = client_->Start(Request(), Keep());
  Settle();
  EXPECT_TRUE(result_->ok());
  call = client_->Start(Request(), Keep());
  Settle();
  EXPECT_EQ(status::Reason(result_->status()), kResponseTooLarge);
  call = client_->Start(Request(), Keep());
  Settle();
  EXPECT_EQ(status::Reason(result_->status()), kInvalid);
}

TEST_F(ClientTest, SurfacesWarnings) {
  std::vector<std::string> warnings;
  ClientOptions options;
  options.on_warning = [&](const ServerWarning& warning) {
    warnings.push_back(warning.method + " " + warning.path + " " + warning.text);
  };
  MakeClient(options);
  replies_ = {{200, "", {{"Warning", "299 - \"old\""}}, absl::OkStatus()}};
  const auto call = client_->Start(Request(), Keep());
  Settle();
  EXPECT_EQ(warnings, std::vector<std::string>{"GET /api/v1/pods old"});
}

TEST_F(ClientTest, CancelsWithItsHandle) {
  MakeClient();
  replies_.assign(10, {503, "", {}, absl::OkStatus()});
  // Before it is sent, under way, answered but not told, and waiting to be repeated.
  for (int stage = 0; stage < 4; ++stage) {
    auto call = client_->Start(Request(), Keep());
    if (stage > 0) strand_.RunReady();
    if (stage > 1) transport_.Step();
    if (stage > 2) strand_.RunReady();
    call.reset();
    EXPECT_EQ(transport_.open(), 0u) << stage;
    EXPECT_EQ(strand_.armed(), 0u) << stage;
    while (strand_.RunNext()) Settle();
    EXPECT_FALSE(result_.has_value()) << stage;
  }
}

TEST_F(ClientTest, CallsMayOutliveTheClientAndAreToldNothing) {
  MakeClient();
  auto token = std::make_shared<int>(1);
  const auto call = client_->Start(Request(), [token](absl::StatusOr<ApiResponse>) { FAIL(); });
  const auto waiting = client_->Start(Request(), [token](absl::StatusOr<ApiResponse>) { FAIL(); });
  strand_.RunReady();
  EXPECT_EQ(transport_.open(), 2u);
  EXPECT_EQ(token.use_count(), 3);
  client_.reset();
  EXPECT_EQ(transport_.open(), 0u);
  EXPECT_EQ(token.use_count(), 1);
  while (strand_.RunNext()) Settle();
}

TEST_F(ClientTest, ACallbackMayDestroyItsCallAndTheClient) {
  MakeClient();
  bool told = false;
  std::unique_ptr<PendingCall> call;
  call = client_->Start(Request(), [&](absl::StatusOr<ApiResponse>) {
    told = true;
    call.reset();
    client_.reset();
  });
  Settle();
  EXPECT_TRUE(told);
}

TEST_F(ClientTest, LimitsItsRateIfAsked) {
  ClientOptions options;
  options.rate_limit = RateLimit{1, 1};
  MakeClient(options);
  const BootTime start = clock_.Read().boot;
  std::vector<std::unique_ptr<PendingCall>> calls;
  std::vector<absl::Duration> at;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(client_->Start(
        Request(), [&](absl::StatusOr<ApiResponse>) { at.push_back(clock_.Read().boot - start); }));
  }
  do {
    Settle();
  } while (strand_.RunNext());
  EXPECT_EQ(
      at, (std::vector<absl::Duration>{absl::ZeroDuration(), absl::Seconds(1), absl::Seconds(2)}));
}

class KeepingReader final : public StreamReader {
 public:
  bool OnBytes(absl::string_view bytes) override {
    text.append(bytes.data(), bytes.size());
    return go_on;
  }
  void OnEnd(absl::Status status) override { end = std::move(status); }

  std::string text;
  bool go_on = true;
  absl::optional<absl::Status> end;
};

TEST_F(ClientTest, StreamsAsTheBytesCome) {
  MakeClient();
  KeepingReader reader;
  const auto stream = client_->Stream(Request(), &reader);
  transport_.handler()->OnHead({200, {}});
  EXPECT_TRUE(transport_.handler()->OnBytes("a"));
  EXPECT_EQ(reader.text, "") << "told on the transport's thread";
  strand_.RunReady();
  EXPECT_EQ(reader.text, "a");
  EXPECT_TRUE(transport_.handler()->OnBytes("b"));
  transport_.handler()->OnEnd(absl::OkStatus());
  strand_.RunReady();
  EXPECT_EQ(reader.text, "ab");
  EXPECT_EQ(reader.end, absl::OkStatus());
  EXPECT_EQ(transport_.requests[0].timeout, absl::InfiniteDuration());
}

TEST_F(ClientTest, HoldsTheServerUpWhileNobodyReads) {
  ClientOptions options;
  options.max_stream_buffer = 4;
  MakeClient(options);
  KeepingReader reader;
  reader.go_on = false;
  const auto stream = client_->Stream(Request(), &reader);
  ResponseHandler* const handler = transport_.handler();
  handler->OnHead({200, {}});
  EXPECT_TRUE(handler->OnBytes("ab"));
  strand_.RunReady();
  EXPECT_EQ(reader.text, "ab");
  EXPECT_TRUE(handler->OnBytes("cd1"));
  EXPECT_FALSE(handler->OnBytes("2"));
  strand_.RunReady();
  EXPECT_EQ(reader.text, "ab") << "told while paused";
  EXPECT_EQ(transport_.resumed, 0);
  stream->Resume();
  strand_.RunReady();
  EXPECT_EQ(reader.text, "abcd12");
  EXPECT_EQ(transport_.resumed, 1);
  // Paused again; the end waits, too.
  handler->OnEnd(absl::OkStatus());
  strand_.RunReady();
  EXPECT_EQ(reader.end, absl::nullopt);
  stream->Resume();
  stream->Resume();
  strand_.RunReady();
  EXPECT_EQ(reader.end, absl::OkStatus());
}

TEST_F(ClientTest, AStreamThatIsRefusedEndsWithTheServersError) {
  MakeClient();
  KeepingReader reader;
  const auto stream = client_->Stream(Request(), &reader);
  transport_.Answer(
      {409, R"({"status":"Failure","reason":"Conflict","message":"busy"})", {}, absl::OkStatus()});
  strand_.RunReady();
  EXPECT_EQ(reader.text, "");
  ASSERT_TRUE(reader.end.has_value());
  EXPECT_TRUE(IsConflict(*reader.end)) << *reader.end;
}

TEST_F(ClientTest, AReaderMayDestroyItsStream) {
  MakeClient();
  struct Reader final : StreamReader {
    bool OnBytes(absl::string_view) override {
      stream.reset();
      return true;
    }
    void OnEnd(absl::Status) override { FAIL(); }
    std::unique_ptr<PendingStream> stream;
  } reader;
  reader.stream = client_->Stream(Request(), &reader);
  transport_.handler()->OnHead({200, {}});
  transport_.handler()->OnBytes("a");
  strand_.RunReady();
  EXPECT_EQ(transport_.open(), 0u);
  reader.stream = client_->Stream(Request(), &reader);
  client_.reset();
  EXPECT_EQ(transport_.open(), 0u);
}

}  // namespace
}  // namespace capstan::kube
