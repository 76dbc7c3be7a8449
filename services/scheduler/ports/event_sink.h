#ifndef CAPSTAN_SERVICES_SCHEDULER_PORTS_EVENT_SINK_H_
#define CAPSTAN_SERVICES_SCHEDULER_PORTS_EVENT_SINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "proto/capstan/event/v1/job_event.pb.h"

namespace capstan::scheduler {

// Where Job events go on their way out of the outbox.
class EventSink {
 public:
  struct Entry {
    // Rises from entry to entry of one store incarnation; one seen before must not count twice.
    int64_t sequence = 0;
    capstan::event::v1::JobEvent event;
  };

  virtual ~EventSink() = default;

  // Answers on the engine's strand: OK once all entries are durable there. After an error the same
  // entries come again. `incarnation` of the store tells sequences apart.
  virtual void Append(int64_t incarnation, std::vector<Entry> entries,
                      absl::AnyInvocable<void(absl::Status)> taken) = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_PORTS_EVENT_SINK_H_
