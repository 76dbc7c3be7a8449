#include "services/telemetry/core/session_book.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::telemetry {
namespace {

using v1::TaskSession;
using v1::TaskSessionFrame;

const auth::SpiffeId kAnn = auth::SpiffeId::Person("d", "ann");
const auth::SpiffeId kBob = auth::SpiffeId::Person("d", "bob");
const auth::SpiffeId kNode = auth::SpiffeId::Node("d", "c1", "n1");

Now At(absl::Duration since) { return {absl::UnixEpoch() + since, BootTime() + since}; }

v1::OpenTaskSessionRequest Request() {
  v1::OpenTaskSessionRequest request;
  TaskSession& session = *request.mutable_session();
  session.set_job("projects/p/jobs/j");
  session.mutable_task()->set_job_uid("uid");
  session.mutable_task()->set_generation(1);
  session.mutable_task()->set_group("w");
  session.set_node("clusters/c1/nodes/n1");
  session.mutable_command()->add_argv("bash");
  return request;
}

TaskSessionFrame Data(const std::string& text) {
  TaskSessionFrame frame;
  frame.mutable_data()->set_data(text);
  return frame;
}

TaskSessionFrame Ended(int code) {
  TaskSessionFrame frame;
  frame.mutable_command_end()->set_exit_code(code);
  return frame;
}

class SessionBookTest : public testing::Test {
 protected:
  void Open(const std::string& id = "s", const TaskSession& wanted = Request().session()) {
    const auto opened = book_.Open(wanted, id, kAnn.ToString(), At(absl::ZeroDuration()));
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->id(), id);
    EXPECT_EQ(opened->principal(), kAnn.ToString());
  }
  void Join(const std::string& id = "s", absl::Duration at = absl::Seconds(1)) {
    EXPECT_EQ(book_.Attach(id, kNode, At(at)).value(), SessionEnd::kNode);
    EXPECT_FALSE(book_.IsJoined(id));
    EXPECT_EQ(book_.Attach(id, kAnn, At(at)).value(), SessionEnd::kPerson);
    EXPECT_TRUE(book_.IsJoined(id));
  }
  absl::Status Frame(SessionEnd from, const TaskSessionFrame& frame,
                     absl::Duration at = absl::Seconds(2)) {
    return book_.OnFrame("s", from, frame, At(at));
  }
  SessionBook book_{SessionBook::Limits{.sessions = 3, .of_one_principal = 2}};
};

TEST_F(SessionBookTest, OnlyItsPrincipalAndItsNodeAttachEachOnce) {
  Open();
  for (const auto& stranger :
       {kBob, auth::SpiffeId::Node("d", "c1", "n2"), auth::SpiffeId::Node("d", "c2", "n1"),
        auth::SpiffeId::Person("e", "ann"), auth::SpiffeId::Service("d", "scheduler"),
        auth::SpiffeId::Task("d", "p", "a", "uid", 1, "w", 0)}) {
    EXPECT_EQ(status::Reason(book_.Attach("s", stranger, At(absl::ZeroDuration())).status()),
              "NO_SUCH_SESSION")
        << stranger.ToString();
  }
  Join();
  EXPECT_FALSE(book_.Attach("s", kAnn, At(absl::ZeroDuration())).ok());
  EXPECT_FALSE(book_.Attach("s", kNode, At(absl::ZeroDuration())).ok());
  EXPECT_FALSE(book_.Attach("t", kAnn, At(absl::ZeroDuration())).ok());
}

TEST_F(SessionBookTest, FramesPassOnlyBetweenBoth) {
  Open();
  ASSERT_TRUE(book_.Attach("s", kAnn, At(absl::ZeroDuration())).ok());
  EXPECT_EQ(status::Reason(Frame(SessionEnd::kPerson, Data("x"))), "NOT_ATTACHED");
  ASSERT_TRUE(book_.Attach("s", kNode, At(absl::ZeroDuration())).ok());
  EXPECT_TRUE(Frame(SessionEnd::kPerson, Data("x")).ok());
  EXPECT_TRUE(Frame(SessionEnd::kNode, Data("yz")).ok());
}

TEST_F(SessionBookTest, EachEndSendsWhatIsItsOwn) {
  Open();
  Join();
  TaskSessionFrame resize;
  resize.mutable_resize()->set_columns(80);
  TaskSessionFrame attached;
  attached.mutable_attached();
  TaskSessionFrame open;
  open.mutable_open()->set_port(80);
  for (const auto& [from, frame] : {std::pair{SessionEnd::kPerson, Ended(0)},
                                    {SessionEnd::kPerson, resize},
                                    {SessionEnd::kNode, resize},
                                    {SessionEnd::kPerson, attached},
                                    {SessionEnd::kNode, attached},
                                    {SessionEnd::kPerson, open},
                                    {SessionEnd::kNode, open},
                                    {SessionEnd::kNode, TaskSessionFrame()}}) {
    EXPECT_EQ(status::Reason(Frame(from, frame)), "BAD_FRAME") << frame.ShortDebugString();
  }
  EXPECT_TRUE(Frame(SessionEnd::kNode, Ended(0)).ok());
}

TEST_F(SessionBookTest, OnlyPortsThatWereNamedAreOpened) {
  TaskSession wanted = Request().session();
  wanted.mutable_ports()->add_ports(8080);
  Open("s", wanted);
  Join();
  TaskSessionFrame frame;
  frame.mutable_open()->set_port(8080);
  EXPECT_TRUE(Frame(SessionEnd::kPerson, frame).ok());
  frame.mutable_open()->set_port(22);
  EXPECT_EQ(status::Reason(Frame(SessionEnd::kPerson, frame)), "BAD_FRAME");
  EXPECT_EQ(book_.Close("s", absl::OkStatus())->message,
            "1 connections, 0 bytes to the Task, 0 from it");
}

TEST_F(SessionBookTest, TheOutcomeHasTheExitCodeAndBytesCountedNotKept) {
  Open();
  Join();
  ASSERT_TRUE(Frame(SessionEnd::kPerson, Data("secret")).ok());
  ASSERT_TRUE(Frame(SessionEnd::kNode, Data("answer!")).ok());
  ASSERT_TRUE(Frame(SessionEnd::kNode, Ended(7)).ok());
  const auto outcome = book_.Close("s", absl::OkStatus());
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->message, "exit code 7, 6 bytes to the Task, 7 from it");
  EXPECT_EQ(book_.size(), 0u);
  EXPECT_FALSE(book_.Close("s", absl::OkStatus()).has_value());
}

TEST_F(SessionBookTest, WhoeverDoesNotAttachInTimeIsNotWaitedFor) {
  Open("s");
  Open("t");
  ASSERT_TRUE(book_.Attach("t", kNode, At(absl::Seconds(1))).ok());
  EXPECT_EQ(book_.NextExpiry(), At(absl::Seconds(20)).boot);
  EXPECT_TRUE(book_.Expire(At(absl::Seconds(19))).empty());
  const auto over = book_.Expire(At(absl::Seconds(20)));
  ASSERT_EQ(over.size(), 2u);
  EXPECT_EQ(status::Reason(over[0].status), "NODE_NOT_ATTACHED");
  EXPECT_EQ(status::Reason(over[1].status), "NOT_ATTACHED");
  EXPECT_EQ(over[0].message, "never begun, 0 bytes to the Task, 0 from it");
}

TEST_F(SessionBookTest, AnIdleSessionEndsAndALongOneToo) {
  Open();
  Join();
  const absl::Duration step = absl::Minutes(59);
  absl::Duration at = step;
  for (; at < absl::Hours(24); at += step) {
    ASSERT_TRUE(book_.Expire(At(at)).empty()) << at;
    ASSERT_TRUE(Frame(SessionEnd::kPerson, Data("x"), at).ok());
  }
  auto over = book_.Expire(At(absl::Hours(24)));
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(status::Reason(over[0].status), "SESSION_TOO_LONG");
  Open();
  Join("s");
  over = book_.Expire(At(absl::Hours(1) + absl::Seconds(1)));
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(status::Reason(over[0].status), "SESSION_IDLE");
  EXPECT_EQ(over[0].message, "broken off, 0 bytes to the Task, 0 from it");
}

TEST_F(SessionBookTest, APersonHasTimeToReadHowItEnded) {
  Open();
  Join();
  EXPECT_FALSE(book_.NodeLeft("s", At(absl::Seconds(3))));
  ASSERT_TRUE(Frame(SessionEnd::kNode, Ended(7)).ok());
  ASSERT_TRUE(book_.NodeLeft("s", At(absl::Seconds(4))));
  // What was under way to the command harms nothing, and lengthens nothing.
  EXPECT_TRUE(Frame(SessionEnd::kPerson, Data("x"), absl::Seconds(5)).ok());
  EXPECT_EQ(book_.NextExpiry(), At(absl::Seconds(14)).boot);
  EXPECT_TRUE(book_.Expire(At(absl::Seconds(13))).empty());
  const auto over = book_.Expire(At(absl::Seconds(14)));
  ASSERT_EQ(over.size(), 1u);
  EXPECT_TRUE(over[0].status.ok()) << over[0].status;
  EXPECT_EQ(over[0].message, "exit code 7, 1 bytes to the Task, 0 from it");
  EXPECT_FALSE(book_.NodeLeft("s", At(absl::Seconds(15))));
}

TEST_F(SessionBookTest, SessionsAreBounded) {
  Open("a");
  Open("b");
  const Now now = At(absl::ZeroDuration());
  EXPECT_EQ(status::Reason(book_.Open(Request().session(), "c", kAnn.ToString(), now).status()),
            "TOO_MANY_SESSIONS");
  EXPECT_TRUE(book_.Open(Request().session(), "c", kBob.ToString(), now).ok());
  EXPECT_FALSE(book_.Open(Request().session(), "d", "carol", now).ok());
  book_.Close("a", absl::OkStatus());
  EXPECT_TRUE(book_.Open(Request().session(), "d", "carol", now).ok());
}

TEST(CheckSessionTest, SaysEverythingThatIsWrong) {
  EXPECT_TRUE(CheckSession(Request()).ok());
  v1::OpenTaskSessionRequest bad;
  bad.mutable_session()->mutable_command()->mutable_terminal()->set_rows(-1);
  // Job, task, node, argv, columns and rows.
  const std::string message(CheckSession(bad).message());
  EXPECT_NE(message.find("session.job"), std::string::npos) << message;
  EXPECT_NE(message.find("(and 5 more)"), std::string::npos) << message;
}

TEST(CheckSessionTest, CommandsAndPortsAreBounded) {
  v1::OpenTaskSessionRequest request = Request();
  request.mutable_session()->mutable_command()->set_argv(0, std::string("a\0b", 3));
  EXPECT_FALSE(CheckSession(request).ok());
  request = Request();
  for (int i = 0; i < 1000; ++i) request.mutable_session()->mutable_command()->add_argv("x");
  EXPECT_FALSE(CheckSession(request).ok());
  request = Request();
  request.mutable_session()->mutable_command()->add_argv(std::string(65536, 'x'));
  EXPECT_FALSE(CheckSession(request).ok());
  request = Request();
  request.mutable_session()->mutable_ports();
  EXPECT_FALSE(CheckSession(request).ok());
  request.mutable_session()->mutable_ports()->add_ports(65536);
  EXPECT_FALSE(CheckSession(request).ok());
  request.mutable_session()->mutable_ports()->set_ports(0, 65535);
  EXPECT_TRUE(CheckSession(request).ok());
  request.mutable_session()->clear_act();
  EXPECT_FALSE(CheckSession(request).ok());
}

}  // namespace
}  // namespace capstan::telemetry
