#ifndef CAPSTAN_LIBS_STRAND_NOTIFY_WHEN_GONE_H_
#define CAPSTAN_LIBS_STRAND_NOTIFY_WHEN_GONE_H_

#include <memory>

#include "absl/synchronization/notification.h"

namespace capstan {

// Ends a wait when it is destroyed: a task or callback that has it ends the wait whether it has run
// or was dropped, as those of a strand are that stops. The notification must outlive it.
struct NotifyWhenGoneDelete {
  void operator()(absl::Notification* done) const { done->Notify(); }
};
using NotifyWhenGone = std::unique_ptr<absl::Notification, NotifyWhenGoneDelete>;

}  // namespace capstan

#endif  // CAPSTAN_LIBS_STRAND_NOTIFY_WHEN_GONE_H_
