// The code of docs/kube.md about commands in Pods, which document_test.sh holds to what is between
// the marks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/remote_command.h"
#include "libs/kube/exec/remote_command_core.h"
#include "libs/kube/exec/run_in_pod.h"
#include "libs/kube/exec/testing/dialer_fixture.h"
#include "libs/kube/exec/testing/web_socket_test_server.h"

namespace capstan::kube {
namespace {

constexpr char kSuccess[] = "\3{\"status\":\"Success\"}";

class ExampleTest : public WebSocketDialerTest {};

TEST_F(ExampleTest, RunsACommandToItsEnd) {
  Serve([](ServedWebSocket* served) {
    served->Accept(kChannelsV5);
    EXPECT_EQ(served->Receive(), std::string("\0b\na\n", 5));
    served->Send("\1a\nb\n");
    served->Send(kSuccess);
    (void)served->Receive();
  });
  WebSocketDialer* const dialer = this->dialer();
  // [doc]
  RunOptions run;
  run.command = {"sort"};
  run.input = "b\na\n";
  const absl::StatusOr<RunResult> sorted = RunInPod(dialer, "default", "web-0", run);
  // [/doc]
  ASSERT_TRUE(sorted.ok()) << sorted.status();
  EXPECT_EQ(sorted->exit_code, 0);
  EXPECT_EQ(sorted->output, "a\nb\n");
}

// [doc]
// Counts lines, and takes no more than it has room for.
class Lines final : public RemoteCommandHandler {
 public:
  bool OnOutput(OutputStream /*stream*/, absl::string_view bytes) override {
    const absl::MutexLock lock(&mutex_);
    absl::StrAppend(&waiting_, bytes);
    return waiting_.size() < kRoom;
  }
  void OnEnd(absl::StatusOr<ExitStatus> end) override {
    const absl::MutexLock lock(&mutex_);
    end_ = std::move(end);
  }

  // On a thread that may wait.
  absl::StatusOr<int64_t> CountAll(RemoteCommand* command) {
    int64_t lines = 0;
    for (;;) {
      std::string bytes;
      {
        const absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &Lines::HasNews));
        if (waiting_.empty()) return end_->ok() ? lines : absl::StatusOr<int64_t>(end_->status());
        bytes.swap(waiting_);
      }
      command->Resume();
      lines += std::count(bytes.begin(), bytes.end(), '\n');
    }
  }

 private:
  static constexpr size_t kRoom = 1 << 20;

  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !waiting_.empty() || end_.has_value();
  }

  absl::Mutex mutex_;
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  absl::optional<absl::StatusOr<ExitStatus>> end_ ABSL_GUARDED_BY(mutex_);
};
// [/doc]

TEST_F(ExampleTest, TakesOutputAtItsOwnPace) {
  constexpr int kPieces = 200;
  Serve([](ServedWebSocket* served) {
    served->Accept(kChannelsV5);
    for (int i = 0; i < kPieces; ++i) served->Send("\1" + std::string(32766, 'x') + "\n");
    served->Send(kSuccess);
    (void)served->Receive();
  });
  WebSocketDialer* const dialer = this->dialer();
  // [doc]
  RemoteCommandOptions options;
  options.command = {"cat", "/var/log/all"};
  Lines lines;
  const auto command = ExecInPod(dialer, "default", "web-0", options, &lines);
  const absl::StatusOr<int64_t> count = lines.CountAll(command.get());
  // [/doc]
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, kPieces);
}

}  // namespace
}  // namespace capstan::kube
