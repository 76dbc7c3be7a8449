#include "libs/kube/exec/remote_command_core.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/port_forward_core.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using absl::StatusCode;

constexpr char kExit3[] = R"({"metadata":{},"status":"Failure","message":"command terminated",
    "reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}})";

std::string Frame(int channel, absl::string_view bytes) {
  return absl::StrCat(std::string(1, static_cast<char>(channel)), bytes);
}

TEST(ReadExitStatusTest, ReadsWhatKubeletsAndApiServersWrite) {
  EXPECT_EQ((*ReadExitStatus(R"({"metadata":{},"status":"Success"})"))->code, 0);
  EXPECT_EQ((*ReadExitStatus(kExit3))->code, 3);
  const auto failed = ReadExitStatus(
      R"({"status":"Failure","message":"no such program","reason":"InternalError","code":500})");
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(status::Reason(failed->status()), kServerFailed);
  const auto forbidden =
      ReadExitStatus(R"({"status":"Failure","reason":"Forbidden","message":"no","code":403})");
  EXPECT_EQ(forbidden->status().code(), StatusCode::kPermissionDenied);
  // An exit code that is none.
  const auto odd = ReadExitStatus(
      R"({"status":"Failure","reason":"NonZeroExitCode",
          "details":{"causes":[{"reason":"ExitCode","message":"three"}]}})");
  EXPECT_EQ(status::Reason(odd->status()), kServerFailed);
  for (const char* other : {"", "{", "{}", R"({"status":"Maybe"})", "null", "[]"}) {
    EXPECT_FALSE(ReadExitStatus(other).has_value()) << other;
  }
}

TEST(RemoteCommandCoreTest, PartsTheChannels) {
  RemoteCommandCore core(100);
  const std::string out = Frame(1, "out");
  EXPECT_EQ(core.Receive(out).output, "out");
  EXPECT_EQ(core.Receive(out).stream, OutputStream::kStdout);
  const std::string err = Frame(2, "err");
  EXPECT_EQ(core.Receive(err).output, "err");
  EXPECT_EQ(core.Receive(err).stream, OutputStream::kStderr);
  // As API servers begin.
  EXPECT_TRUE(core.Receive(Frame(1, "")).output.empty());
  for (const std::string& other :
       {std::string(), Frame(7, "x"), Frame(0, "x"), Frame(255, "\1"), Frame(3, "")}) {
    const RemoteCommandCore::Received received = core.Receive(other);
    EXPECT_TRUE(received.output.empty());
    EXPECT_FALSE(received.end.has_value());
  }
}

TEST(RemoteCommandCoreTest, TakesTheEndInPieces) {
  RemoteCommandCore core(100);
  const std::string status = kExit3;
  EXPECT_FALSE(core.Receive(Frame(3, status.substr(0, 50))).end.has_value());
  const auto end = core.Receive(Frame(3, status.substr(50))).end;
  ASSERT_TRUE(end.has_value() && end->ok());
  EXPECT_EQ((*end)->code, 3);
}

TEST(RemoteCommandCoreTest, BoundsWhatIsNoEnd) {
  RemoteCommandCore core(100);
  absl::optional<absl::StatusOr<ExitStatus>> end;
  int messages = 0;
  while (!end.has_value() && messages < 10) {
    end = core.Receive(Frame(3, std::string(32768, '['))).end;
    ++messages;
  }
  EXPECT_EQ(messages, 3);
  EXPECT_EQ(status::Reason(end->status()), kServerFailed);
}

TEST(RemoteCommandCoreTest, SendsOnlyOnceOpened) {
  RemoteCommandCore core(100);
  EXPECT_EQ(core.WriteStdin("hello"), 5u);
  core.Resize({80, 24});
  core.Resize({132, 50});
  EXPECT_EQ(core.CloseStdin(), absl::OkStatus());
  EXPECT_FALSE(core.NextFrame().has_value());
  EXPECT_EQ(core.Opened(kChannelsV5), absl::OkStatus());
  EXPECT_EQ(core.NextFrame(), Frame(4, R"({"Width":132,"Height":50})"));
  EXPECT_EQ(core.NextFrame(), Frame(0, "hello"));
  EXPECT_EQ(core.NextFrame(), std::string("\xff\0", 2));
  EXPECT_FALSE(core.NextFrame().has_value());
  EXPECT_EQ(core.WriteStdin("late"), 0u);
  EXPECT_EQ(core.CloseStdin(), absl::OkStatus());
  EXPECT_FALSE(core.NextFrame().has_value());
}

TEST(RemoteCommandCoreTest, BoundsStdinAndTellsOfRoom) {
  RemoteCommandCore core(100000);
  ASSERT_EQ(core.Opened(kChannelsV5), absl::OkStatus());
  const std::string many(150000, 'x');
  EXPECT_EQ(core.WriteStdin(many), 100000u);
  EXPECT_EQ(core.WriteStdin("more"), 0u);
  EXPECT_FALSE(core.TakeRoom());
  // Frames of 32 KiB.
  EXPECT_EQ(core.NextFrame()->size(), 32769u);
  EXPECT_FALSE(core.TakeRoom());
  EXPECT_EQ(core.NextFrame()->size(), 32769u);
  EXPECT_TRUE(core.TakeRoom());
  EXPECT_FALSE(core.TakeRoom());
  EXPECT_EQ(core.WriteStdin(many), 65536u);
}

TEST(RemoteCommandCoreTest, CannotCloseStdinInV4) {
  RemoteCommandCore open(100);
  EXPECT_EQ(open.Opened(kChannelsV4), absl::OkStatus());
  EXPECT_EQ(status::Reason(open.CloseStdin()), kUnsupported);
  EXPECT_EQ(open.WriteStdin("still"), 5u);
  EXPECT_EQ(open.NextFrame(), Frame(0, "still"));
  EXPECT_FALSE(open.NextFrame().has_value());
  RemoteCommandCore closed(100);
  EXPECT_EQ(closed.CloseStdin(), absl::OkStatus());
  EXPECT_EQ(status::Reason(closed.Opened(kChannelsV4)), kUnsupported);
}

TEST(RemoteCommandCoreTest, KnowsNoOtherSubprotocol) {
  EXPECT_EQ(status::Reason(RemoteCommandCore(1).Opened("")), kServerFailed);
  EXPECT_EQ(status::Reason(RemoteCommandCore(1).Opened("base64.channel.k8s.io")), kServerFailed);
  EXPECT_EQ(status::Reason(PortForwardCore(1, 1).Opened(kChannelsV5)), kServerFailed);
}

TEST(PortForwardCoreTest, TakesThePortOffEachChannel) {
  PortForwardCore core(8080, 100);
  EXPECT_EQ(core.Write("early"), 5u);
  EXPECT_FALSE(core.NextFrame().has_value());
  ASSERT_EQ(core.Opened(kChannelsV4), absl::OkStatus());
  EXPECT_EQ(core.NextFrame(), Frame(0, "early"));
  // 8080 is 0x1f90.
  EXPECT_TRUE(core.Receive(Frame(0, "\x90")).bytes.empty());
  const std::string data = Frame(0,
                                 "\x1f"
                                 "data");
  EXPECT_EQ(core.Receive(data).bytes, "data");
  const std::string more = Frame(0, "\x90\x1f");
  EXPECT_EQ(core.Receive(more).bytes, "\x90\x1f");
  EXPECT_EQ(core.Receive(Frame(1, "\x90\x1f")).error, absl::OkStatus());
  const absl::Status error = core.Receive(Frame(1, "connection refused")).error;
  EXPECT_EQ(status::Reason(error), kForwardFailed);
  EXPECT_EQ(error.message(), "the kubelet cannot forward port 8080: connection refused");
}

TEST(PortForwardCoreTest, TakesNoOtherPort) {
  PortForwardCore core(8080, 100);
  EXPECT_EQ(status::Reason(core.Receive(Frame(0, "\x91\x1f")).error), kServerFailed);
}

}  // namespace
}  // namespace capstan::kube
