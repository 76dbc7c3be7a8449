#ifndef CAPSTAN_INTEGRATION_OVERLOAD_CALL_STORM_H_
#define CAPSTAN_INTEGRATION_OVERLOAD_CALL_STORM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "libs/time/clock.h"

namespace capstan::integration {

// How calls have ended.
struct StormEnd {
  std::map<grpc::StatusCode, int64_t> ends;
  // One message of each code.
  std::map<grpc::StatusCode, std::string> messages;
  // RESOURCE_EXHAUSTED that does not say when to come again.
  int64_t without_delay = 0;
  absl::Duration slowest;
  absl::Duration lasted;

  int64_t all() const;
  double PerSecond() const;
  // For people.
  std::string Describe() const;
};

// The bytes of a CreateJobRequest, in projects/default, for a Job that no Node has room for.
std::string JobWithoutRoom();

// One request again and again, `outstanding` of them under way at any time: as soon as one has
// ended the next begins, whatever the answer was. The destructor stops it. Thread-safe.
class CallStorm {
 public:
  // The clock must outlive the storm. `path`: `/package.Service/Method`, a unary one.
  CallStorm(std::vector<std::shared_ptr<grpc::Channel>> channels, std::string path,
            const std::string& request, int outstanding, const Clock* clock);
  ~CallStorm() { Stop(); }
  CallStorm(const CallStorm&) = delete;
  CallStorm& operator=(const CallStorm&) = delete;

  // Waits for the calls that are under way.
  StormEnd Stop();

 private:
  struct OneCall;

  void Begin(grpc::GenericStub* stub);
  void Ended(std::unique_ptr<OneCall> call, grpc::GenericStub* stub, const grpc::Status& status);

  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  const std::string path_;
  const grpc::ByteBuffer request_;
  const Clock* const clock_;
  const BootTime begun_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  StormEnd end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_OVERLOAD_CALL_STORM_H_
