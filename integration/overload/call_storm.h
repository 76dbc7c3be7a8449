#ifndef CAPSTAN_INTEGRATION_OVERLOAD_CALL_STORM_H_
#define CAPSTAN_INTEGRATION_OVERLOAD_CALL_STORM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "libs/time/clock.h"

namespace capstan::integration {

// How calls have ended, those that were under way when the storm stopped left out.
struct StormEnd {
  std::map<grpc::StatusCode, int64_t> ends;
  // One message of each code.
  std::map<grpc::StatusCode, std::string> messages;
  // RESOURCE_EXHAUSTED that does not say when to come again.
  int64_t without_delay = 0;
  absl::Duration slowest;
  absl::Duration lasted;
  // When nothing more was sent.
  BootTime stopped;

  int64_t all() const;
  double PerSecond() const;
  // For people.
  std::string Describe() const;
};

// What a storm asks.
struct StormCall {
  // `/package.Service/Method`: a unary one, or a stream that ends once its client has said one
  // message and nothing more.
  std::string path;
  // The n-th request, from 0, which goes out on that one of the channels. Called on gRPC's threads,
  // by several at once.
  std::function<grpc::ByteBuffer(int64_t n, size_t channel)> request;
  // Serialised PlacementGrant that the caller shows; empty for none.
  std::string grant{};
};

// A serialised message as gRPC sends it.
grpc::ByteBuffer BufferOf(const std::string& bytes);

// The bytes of a CreateJobRequest, in projects/default, for a Job that no Node has room for.
std::string JobWithoutRoom();

// A call again and again, `outstanding` of them under way at any time: as soon as one has ended the
// next begins, whatever the answer was. The destructor stops it. Thread-safe.
class CallStorm {
 public:
  // The clock must outlive the storm.
  CallStorm(std::vector<std::shared_ptr<grpc::Channel>> channels, StormCall call, int outstanding,
            const Clock* clock);
  // One request again and again.
  CallStorm(std::vector<std::shared_ptr<grpc::Channel>> channels, std::string path,
            const std::string& request, int outstanding, const Clock* clock);
  ~CallStorm() { Stop(); }
  CallStorm(const CallStorm&) = delete;
  CallStorm& operator=(const CallStorm&) = delete;

  // Sends nothing more, and cancels the calls that are under way.
  StormEnd Stop();

 private:
  struct OneCall;

  // `instead_of`: one that has ended; null for none.
  void Begin(size_t channel, const std::shared_ptr<OneCall>& instead_of);
  void Ended(const std::shared_ptr<OneCall>& call, size_t channel, const grpc::Status& status);

  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  const StormCall call_;
  const Clock* const clock_;
  const BootTime begun_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_set<std::shared_ptr<OneCall>> under_way_ ABSL_GUARDED_BY(mutex_);
  StormEnd end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_OVERLOAD_CALL_STORM_H_
