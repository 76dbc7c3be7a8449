#ifndef CAPSTAN_LIBS_TASK_SESSION_FD_CHANNELS_H_
#define CAPSTAN_LIBS_TASK_SESSION_FD_CHANNELS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/safe_path/safe_path.h"
#include "libs/task_session/channels.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::task_session {

// Moves bytes between descriptors and the channels of one end of a session, on a thread of its own
// that waits for descriptors and frames. What a descriptor does not take at once waits here, within
// the channel's credit; a descriptor is not read while there is no credit.
//
// Callbacks run on that thread, and must not destroy the object.
class FdChannels {
 public:
  struct Callbacks {
    // Passes a frame on. After an error the session is over, and nothing more is sent.
    std::function<absl::Status(telemetry::v1::TaskSessionFrame)> send = {};
    // The peer has opened a channel to a port: the connected socket, or why there is none. Empty
    // where the peer may open none.
    std::function<absl::StatusOr<UniqueFd>(int32_t port)> connect = {};
    // A connection has come on a listening socket.
    std::function<void(UniqueFd connection, int32_t port)> accepted = {};
    // The peer has broken the rules: the session must end.
    std::function<void(const absl::Status&)> broken = {};
    // Nothing more is read for a channel that was read: it has ended, or was given up. May be
    // empty.
    std::function<void(int32_t channel)> eof = {};
    // No channel is open and everything that came was written, or given up. Each time.
    std::function<void()> idle = {};
  };

  explicit FdChannels(Callbacks callbacks);
  // Ends the thread; descriptors are closed.
  ~FdChannels();
  FdChannels(const FdChannels&) = delete;
  FdChannels& operator=(const FdChannels&) = delete;

  // Opens a channel between descriptors, each of which may be invalid: nothing is read, so that
  // this direction ends at once; or what comes is thrown away. Both are made non-blocking unless
  // they share their open file with others (`shared`): those are waited for before each use. A
  // socket is given twice, as a duplicate; its directions end apart.
  void Add(int32_t channel, UniqueFd read, UniqueFd write, bool shared = false);
  // Opens the channel with the next number to the peer's `port` and sends `open` before.
  void OpenTo(UniqueFd connection, int32_t port);
  // Accepts connections while there is room for a channel. Any number of sockets.
  void Listen(UniqueFd socket, int32_t port);
  // A frame of the peer about a channel.
  void Receive(telemetry::v1::TaskSessionFrame frame);
  // Runs on the thread, behind what was added before.
  void Post(absl::AnyInvocable<void()> task);
  // Runs on the thread once nothing that has come waits to be written.
  void OnDrained(absl::AnyInvocable<void()> task);

  // Bytes since the beginning, from descriptors and to them.
  int64_t bytes_read() const;
  int64_t bytes_written() const;

 private:
  struct Channel {
    UniqueFd read;
    UniqueFd write;
    bool shared = false;
    bool eof = false;
    // What came and was not written yet.
    std::deque<std::string> waiting;
    // The peer has ended; `write` is closed behind what waits.
    bool ended_there = false;
  };
  struct Listener {
    UniqueFd socket;
    int32_t port = 0;
  };

  void Run();
  void RunTasks();
  void Handle(const telemetry::v1::TaskSessionFrame& frame);
  void ReadFrom(int32_t number, Channel& channel);
  void WriteTo(int32_t number, Channel& channel);
  void Accept(const Listener& listener);
  void GiveUp(int32_t number, const std::string& why);
  // Also one that is given up before the thread has looked round counts as having been open.
  Channel& NewChannel(int32_t number);
  void Forget(int32_t number);
  void CloseWrite(Channel& channel);
  void Send(telemetry::v1::TaskSessionFrame frame);
  void DropFinished();

  const Callbacks callbacks_;
  UniqueFd wake_;
  mutable absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t bytes_read_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_written_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the thread.
  Channels book_;
  std::map<int32_t, Channel> channels_;
  std::vector<Listener> listeners_;
  std::vector<absl::AnyInvocable<void()>> drained_;
  int32_t next_ = 0;
  bool over_ = false;
  bool was_busy_ = false;
  std::thread thread_;
};

}  // namespace capstan::task_session

#endif  // CAPSTAN_LIBS_TASK_SESSION_FD_CHANNELS_H_
