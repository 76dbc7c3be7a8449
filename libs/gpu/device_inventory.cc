#include "libs/gpu/device_inventory.h"

namespace capstan::gpu {

absl::string_view FaultText(Fault fault) {
  switch (fault) {
    case Fault::kLost:
      return "it is lost: it fell off the bus or does not answer; see the kernel's log for its Xid";
    case Fault::kNeedsReset:
      return "it must be reset before it can be used again";
    case Fault::kRowsPending:
      return "rows of its memory wait to be remapped; reset it when nothing runs on it";
    case Fault::kRowsFailed:
      return "rows of its memory could not be remapped; have it replaced";
    case Fault::kUnreadable:
      return "the driver does not say what it is; may this user open its device file?";
  }
  return "it has a fault";
}

}  // namespace capstan::gpu
