// Tells people what happens to objects, by Events of events.k8s.io/v1.
#ifndef CAPSTAN_LIBS_KUBE_EVENTS_EVENT_RECORDER_H_
#define CAPSTAN_LIBS_KUBE_EVENTS_EVENT_RECORDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/client/client.h"
#include "libs/kube/events/event_core.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/proto_traits.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/log/log.h"

namespace capstan::kube {

// Without the version: the series of an object goes on when it changes.
template <typename T>
core_v1::ObjectReference ReferenceTo(const ResourceType& type, const T& object) {
  using Traits = ObjectTraits<T>;
  core_v1::ObjectReference reference;
  reference.set_api_version(ApiVersion(type));
  reference.set_kind(type.kind);
  reference.set_namespace_(std::string(Traits::Namespace(object)));
  reference.set_name(std::string(Traits::Name(object)));
  reference.set_uid(std::string(Traits::Uid(object)));
  return reference;
}
template <typename T>
core_v1::ObjectReference ReferenceTo(const TypedResource<T>& resource, const T& object) {
  return ReferenceTo<T>(resource.type(), object);
}

struct EventRecorderDependencies {
  Client* client = nullptr;
  // Of the jitter of waits, and of names.
  uint64_t seed = 0;
  absl::optional<log::Logger> log;
};

// Thread-safe. What it remembers is bounded: see EventOptions. The client's strand must outlive it,
// and either go on until Stop has returned or have stopped before; the client must be there for as
// long as its strand goes on.
class EventRecorder {
 public:
  EventRecorder(EventOptions options, EventRecorderDependencies dependencies);
  // Stops at once.
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  // Never waits for the server. False: there was no room, or it was stopped; it is counted.
  bool Record(const EventRecord& record);
  // Writes what is left, each once, for at most `flush`; the rest counts as failed. Nothing runs
  // once it has returned. Not on the strand. Idempotent; one thread at a time.
  void Stop(absl::Duration flush);

  EventStats stats() const;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EVENTS_EVENT_RECORDER_H_
