#include "libs/rpc/observation.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/access_log.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/server.h"
#include "libs/rpc/session_client.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo.pb.h"
#include "libs/rpc/testing/echo_server.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "libs/trace/tracer.h"

namespace capstan::rpc {
namespace {

using testing::EchoMessage;
using testing::EchoServer;
using testing::EchoService;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Async = EchoService::StubInterface::async_interface;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

class KeptSpans final : public trace::Sink {
 public:
  void End(trace::Span span) override {
    absl::MutexLock lock(&mutex_);
    spans_.push_back(std::move(span));
  }
  // By name, the servers' after the clients'.
  std::vector<trace::Span> Take() {
    absl::MutexLock lock(&mutex_);
    std::sort(spans_.begin(), spans_.end(), [](const trace::Span& a, const trace::Span& b) {
      return std::make_pair(a.name, a.kind == trace::Kind::kServer) <
             std::make_pair(b.name, b.kind == trace::Kind::kServer);
    });
    return std::exchange(spans_, {});
  }

 private:
  absl::Mutex mutex_;
  std::vector<trace::Span> spans_ ABSL_GUARDED_BY(mutex_);
};

// Says which span its handler finds.
class TellingEcho final : public EchoService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const EchoMessage*,
                                 EchoMessage* response) override {
    const auto found = TraceOf(*context);
    if (found.has_value()) response->set_text(trace::ToTraceparent(*found));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class ObservationTest : public ::testing::Test {
 protected:
  // Observed by both ends, as far as wanted.
  void Start(bool logged, bool traced, grpc::Service* service = nullptr,
             AccessLog::Options options = {}) {
    Observation observation;
    if (logged) {
      observation.access_log = std::make_shared<AccessLog>(options, &clock_, logger_, &registry_);
    }
    if (traced) {
      observation.tracer =
          std::make_shared<trace::Tracer>(trace::Tracer::Options{.ratio = 0}, &clock_, 5, &spans_);
    }
    SetObservation(observation);
    ServerConfig config;
    config.credentials = grpc::InsecureServerCredentials();
    config.services = {Registered<EchoService>(service == nullptr ? &echo_ : service)};
    server_ = Server::Start(config).value();
    stub_ = EchoService::NewStub(
        Dial(absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
    SetObservation({});
  }
  ~ObservationTest() override { client_.Stop(); }

  absl::StatusOr<std::string> Echo(const std::string& text, const std::string& traceparent = "") {
    CallOptions options;
    if (!traceparent.empty()) options.metadata = {{"traceparent", traceparent}};
    EchoMessage request;
    request.set_text(text);
    absl::Notification done;
    absl::StatusOr<std::string> echoed;
    CallUnary(stub_.get(), &Async::Echo, request, options, &client_,
              [&](const absl::StatusOr<EchoMessage>& answer) {
                if (answer.ok()) {
                  echoed = answer->text();
                } else {
                  echoed = answer.status();
                }
                done.Notify();
              });
    done.WaitForNotification();
    return echoed;
  }
  // Every call is over when the server is.
  void Stop() {
    stub_ = nullptr;
    server_ = nullptr;
  }
  // Without the duration, which no test can know.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const log::Record& record : sink_.records()) {
      std::string line = record.message;
      for (const log::Field& field : record.fields) {
        if (field.key() == "duration") continue;
        absl::StrAppend(&line, " ", field.key(), "=", field.text());
      }
      lines.push_back(line);
    }
    return lines;
  }

  const SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_{"echo", &clock_, &sink_};
  metrics::Registry registry_{"process"};
  KeptSpans spans_;
  auth::FakeAccess access_;
  ThreadStrand strand_{"server", &clock_};
  ThreadStrand client_{"client", &clock_};
  EchoServer echo_{&access_, &strand_};
  TellingEcho telling_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<EchoService::Stub> stub_;
};

TEST_F(ObservationTest, OneLineForEachCallWithoutWhatWasSaid) {
  Start(/*logged=*/true, /*traced=*/false);
  EXPECT_TRUE(Echo("secret", kTraceparent).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Echo("bad", "nonsense").status()));
  Stop();
  EXPECT_THAT(Lines(), ElementsAre(absl::StrCat("call method=/capstan.rpc.testing.EchoService/Echo "
                                                "principal=anonymous code=OK trace_id=",
                                                kTrace),
                                   "call method=/capstan.rpc.testing.EchoService/Echo "
                                   "principal=anonymous code=INVALID_ARGUMENT"));
  EXPECT_THAT(spans_.Take(), IsEmpty());
}

TEST_F(ObservationTest, AStreamIsALineAtItsEnd) {
  Start(/*logged=*/true, /*traced=*/false);
  absl::Notification closed;
  SessionCallbacks<EchoMessage> callbacks;
  callbacks.on_closed = [&](const absl::Status&) { closed.Notify(); };
  std::shared_ptr<Session<EchoMessage, EchoMessage>> session;
  client_.Post([&] {
    session = OpenSession(stub_.get(), &Async::Chat, &client_, std::move(callbacks));
    EchoMessage stop;
    stop.set_text("stop");
    session->Send(stop).IgnoreError();
  });
  closed.WaitForNotification();
  Stop();
  EXPECT_THAT(Lines(), ElementsAre("call method=/capstan.rpc.testing.EchoService/Chat "
                                   "principal=anonymous code=ABORTED"));
}

TEST_F(ObservationTest, RefusedCallsAreLoggedToo) {
  Start(/*logged=*/true, /*traced=*/false, nullptr, {.failed_only = true});
  EXPECT_TRUE(Echo("fine").ok());
  access_.Refuse(absl::PermissionDeniedError("no"));
  EXPECT_TRUE(absl::IsPermissionDenied(Echo("fine").status()));
  Stop();
  EXPECT_THAT(Lines(), ElementsAre("call method=/capstan.rpc.testing.EchoService/Echo "
                                   "principal=anonymous code=PERMISSION_DENIED"));
}

TEST_F(ObservationTest, ACallContinuesTheCallersTrace) {
  Start(/*logged=*/true, /*traced=*/true);
  const trace::Context caller = *trace::Parse(kTraceparent);
  {
    const trace::Scope scope(caller);
    EXPECT_TRUE(Echo("fine").ok());
    EXPECT_FALSE(Echo("bad").ok());
  }
  Stop();
  const std::vector<trace::Span> spans = spans_.Take();
  ASSERT_EQ(spans.size(), 4u);
  for (const trace::Span& span : spans) {
    EXPECT_EQ(trace::TraceIdOf(span.context), kTrace);
    EXPECT_EQ(span.name, "capstan.rpc.testing.EchoService/Echo");
    EXPECT_LE(span.begin, span.end);
  }
  for (const trace::Span* client : {&spans[0], &spans[1]}) {
    EXPECT_EQ(client->kind, trace::Kind::kClient);
    EXPECT_EQ(client->parent, caller.span);
    const auto server = std::find_if(spans.begin() + 2, spans.end(), [&](const trace::Span& span) {
      return span.parent == client->context.span;
    });
    ASSERT_NE(server, spans.end());
    EXPECT_EQ(server->kind, trace::Kind::kServer);
    EXPECT_EQ(server->failed, client->failed);
    EXPECT_EQ(client->error, client->failed ? "INVALID_ARGUMENT" : "");
  }
  EXPECT_NE(spans[0].failed, spans[1].failed);
  // The line names the trace.
  EXPECT_EQ(sink_.records()[0].fields.back().text(), kTrace);
}

TEST_F(ObservationTest, AHandlerFindsItsOwnSpan) {
  Start(/*logged=*/false, /*traced=*/true, &telling_);
  absl::StatusOr<std::string> found;
  {
    const trace::Scope scope(trace::Parse(kTraceparent));
    found = Echo("");
  }
  Stop();
  ASSERT_TRUE(found.ok());
  const std::vector<trace::Span> spans = spans_.Take();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(*found, trace::ToTraceparent(spans[1].context));
}

TEST_F(ObservationTest, WithoutATracerAHandlerFindsTheCallersSpan) {
  Start(/*logged=*/false, /*traced=*/false, &telling_);
  EXPECT_EQ(*Echo("", kTraceparent), kTraceparent);
  EXPECT_EQ(*Echo("", "nonsense"), "");
  EXPECT_EQ(*Echo(""), "");
}

TEST_F(ObservationTest, WhatIsNotSampledIsCarriedOnAndNotRecorded) {
  Start(/*logged=*/true, /*traced=*/true, &telling_);
  {
    trace::Context caller = *trace::Parse(kTraceparent);
    caller.sampled = false;
    const trace::Scope scope(caller);
    EXPECT_EQ(trace::TraceIdOf(*trace::Parse(*Echo(""))), kTrace);
  }
  // Nobody's call: not sampled here, and not by the server for itself.
  const auto nobodys = trace::Parse(*Echo(""));
  ASSERT_TRUE(nobodys.has_value());
  EXPECT_FALSE(nobodys->sampled);
  Stop();
  EXPECT_THAT(spans_.Take(), IsEmpty());
}

}  // namespace
}  // namespace capstan::rpc
