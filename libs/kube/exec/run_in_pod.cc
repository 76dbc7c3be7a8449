#include "libs/kube/exec/run_in_pod.h"

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/remote_command.h"
#include "libs/kube/exec/remote_command_core.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

class Collector final : public RemoteCommandHandler {
 public:
  explicit Collector(const RunOptions& options)
      : input_(options.input), most_(options.max_output_bytes) {}

  absl::StatusOr<RunResult> Run(WebSocketDialer* dialer, absl::string_view ns,
                                absl::string_view pod, const RemoteCommandOptions& options) {
    std::unique_ptr<RemoteCommand> command;
    {
      // Held, so that who is called at once finds the command.
      absl::MutexLock lock(&mutex_);
      command = ExecInPod(dialer, ns, pod, options, this);
      command_ = command.get();
    }
    done_.WaitForNotification();
    command.reset();
    if (!end_.ok()) return end_.status();
    result_.exit_code = end_->code;
    return std::move(result_);
  }

  void OnStarted() override { Write(); }
  void OnStdinRoom() override { Write(); }

  bool OnOutput(OutputStream stream, absl::string_view bytes) override {
    if (result_.output.size() + result_.errors.size() + bytes.size() > most_) {
      Finish(status::Error(absl::StatusCode::kResourceExhausted, kOutputTooLarge,
                           absl::StrCat("the command wrote more than ", most_, " bytes"),
                           {{"max_output_bytes", absl::StrCat(most_)}}));
      return false;
    }
    absl::StrAppend(stream == OutputStream::kStdout ? &result_.output : &result_.errors, bytes);
    return true;
  }

  void OnEnd(absl::StatusOr<ExitStatus> end) override { Finish(std::move(end)); }

 private:
  void Finish(absl::StatusOr<ExitStatus> end) {
    if (done_.HasBeenNotified()) return;
    end_ = std::move(end);
    done_.Notify();
  }

  void Write() {
    if (input_.empty()) return;
    RemoteCommand* command = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      command = command_;
    }
    input_.remove_prefix(command->WriteStdin(input_));
    if (!input_.empty()) return;
    absl::Status closed = command->CloseStdin();
    if (!closed.ok()) Finish(std::move(closed));
  }

  absl::string_view input_;
  const size_t most_;
  absl::Mutex mutex_;
  RemoteCommand* command_ ABSL_GUARDED_BY(mutex_) = nullptr;
  RunResult result_;
  absl::StatusOr<ExitStatus> end_ = ExitStatus();
  absl::Notification done_;
};

}  // namespace

absl::StatusOr<RunResult> RunInPod(WebSocketDialer* dialer, absl::string_view ns,
                                   absl::string_view pod, const RunOptions& options) {
  RemoteCommandOptions remote;
  remote.container = options.container;
  remote.command = options.command;
  remote.take_stdin = !options.input.empty();
  remote.timeout = options.timeout;
  return Collector(options).Run(dialer, ns, pod, remote);
}

}  // namespace capstan::kube
