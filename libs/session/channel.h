// The two ends of a control session, as engines see them: no transport in sight.
#ifndef CAPSTAN_LIBS_SESSION_CHANNEL_H_
#define CAPSTAN_LIBS_SESSION_CHANNEL_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::session {

// The lower side's end. Used on one strand.
class UpChannel {
 public:
  virtual ~UpChannel() = default;
  // RESOURCE_EXHAUSTED if the peer reads too slowly; nothing is queued then.
  virtual absl::Status Send(capstan::type::v1::SessionUp message) = 0;
  // Ends the session; on_closed follows.
  virtual void Finish(const absl::Status& status) = 0;
};

// Called on the strand; nothing after on_closed.
struct UpCallbacks {
  std::function<void(capstan::type::v1::SessionDown)> on_message;
  std::function<void(const absl::Status&)> on_closed;
};

// Opens sessions to the upper side. Without a connection on_closed gets UNAVAILABLE.
class UpDialer {
 public:
  virtual ~UpDialer() = default;
  virtual std::shared_ptr<UpChannel> Open(UpCallbacks callbacks) = 0;
};

// The upper side's end. Used on one strand.
class DownChannel {
 public:
  virtual ~DownChannel() = default;
  virtual absl::Status Send(capstan::type::v1::SessionDown message) = 0;
  virtual void Finish(const absl::Status& status) = 0;
};

}  // namespace capstan::session

#endif  // CAPSTAN_LIBS_SESSION_CHANNEL_H_
