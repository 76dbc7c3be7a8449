#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_SUPERVISOR_CHANNEL_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_SUPERVISOR_CHANNEL_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace capstan::credentials {

// The inherited descriptor on which the supervisor asks for join tokens; the protocol is in
// README.md. One question at a time, answered in order, on a thread of its own.
class SupervisorChannel {
 public:
  struct Options {
    // A connected SOCK_SEQPACKET socket. Owned from here on, also if Start fails.
    int fd = -1;
    // What may be asked for.
    std::set<std::string> paths;
    // First message.
    std::string ready;
    // Makes a token for one of the paths; must call its callback once, soon, from any thread.
    std::function<void(const std::string& path,
                       absl::AnyInvocable<void(absl::StatusOr<std::string>)> done)>
        make_token;
  };

  // Sends `ready` and begins to answer.
  static absl::StatusOr<std::unique_ptr<SupervisorChannel>> Start(Options options);
  // Ends the channel; a question in hand is answered first.
  ~SupervisorChannel();
  SupervisorChannel(const SupervisorChannel&) = delete;
  SupervisorChannel& operator=(const SupervisorChannel&) = delete;

 private:
  explicit SupervisorChannel(Options options) : options_(std::move(options)) {}
  void Loop();
  std::string AnswerTo(const std::string& question);
  // False once the other end is gone.
  bool Send(const std::string& message) const;

  const Options options_;
  std::thread thread_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_SUPERVISOR_CHANNEL_H_
