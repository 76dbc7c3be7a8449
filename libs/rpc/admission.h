#ifndef CAPSTAN_LIBS_RPC_ADMISSION_H_
#define CAPSTAN_LIBS_RPC_ADMISSION_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/auth/principal.h"
#include "libs/metrics/registry.h"

namespace capstan::rpc {

// Bounds how many calls are under way in a process, so that memory stays bounded and nobody who
// asks for too much is in the way of others. Thread-safe. Health is not asked for a place: gRPC's
// own service and the metrics port tell it.
//
// Whoever it is, a caller gets no more places than are free: with n callers who ask without end,
// each gets an (n+1)th and one such share stays free for those who ask for little. The rule is that
// of dynamic thresholds for shared buffers (A. K. Choudhury, E. L. Hahne, IEEE/ACM Transactions on
// Networking 6(2), 1998), with a factor of 1.
//
// One of the platform's own parts (a service, an executor, a Node), by its identity, gets no more
// than are free in all, so half of them at most, and at most `of_part`. That is more than one does
// who is well. An executor has one session for all of its Nodes, and events go by one call at a
// time. What has much under way has one connection for it, which carries 1,000
// (ServerConfig::max_concurrent_streams): the scheduler at the data_loader, with a stream for each
// load that a Job waits for and a call for each Job that has ended; a Node with a call for each of
// its Tasks. Twice that is for the connection before it, which may not be over.
//
// Everyone else together gets what the parts have not, but `all - shared` in `all` of it: leases and
// orders go on whatever people do. Of that each gets at most `each`, and no more than is free of it.
class Admission : public std::enable_shared_from_this<Admission> {
 public:
  enum class Kind {
    // Ends by itself, soon.
    kCall,
    // Stays open for as long as its peer likes.
    kStream,
  };
  struct Bound {
    int all = 0;
    int shared = 0;
    int each = 0;
    int of_part = 0;
  };
  struct Options {
    Bound calls = {.all = 4096, .shared = 3072, .each = 256, .of_part = 2048};
    Bound streams = {.all = 16384, .shared = 8192, .each = 2048, .of_part = 2048};
    // When who was refused is to come again.
    absl::Duration retry_delay = absl::Seconds(1);
  };

  // A place for one call, until it is destroyed. Move-only. An empty one holds nothing.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept = default;
    Ticket& operator=(Ticket&& other) noexcept {
      Leave();
      admission_ = std::move(other.admission_);
      kind_ = other.kind_;
      of_part_ = other.of_part_;
      principal_ = std::move(other.principal_);
      return *this;
    }
    ~Ticket() { Leave(); }

   private:
    friend class Admission;
    void Leave();

    std::shared_ptr<Admission> admission_;
    Kind kind_ = Kind::kCall;
    bool of_part_ = false;
    std::string principal_;
  };

  // The registry must outlive it, or Close must be called before it goes.
  static std::shared_ptr<Admission> Make(const Options& options, metrics::Registry* registry);

  // RESOURCE_EXHAUSTED with reason TOO_MANY_CALLS and a retry delay if there is no place.
  absl::StatusOr<Ticket> Enter(const auth::Caller& caller, Kind kind);
  // Counts nothing in metrics any more.
  void Close();

 private:
  struct Pool {
    Bound bound;
    // Of the platform's own parts, and of everyone else.
    int of_parts = 0;
    int shared = 0;
    absl::flat_hash_map<std::string, int> of_principal;
  };

  Admission(const Options& options, metrics::Registry* registry);
  void Leave(const Ticket& ticket);
  Pool& PoolOf(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kind == Kind::kCall ? calls_ : streams_;
  }

  const absl::Duration retry_delay_;
  metrics::Counter refused_calls_;
  metrics::Counter refused_streams_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Pool calls_ ABSL_GUARDED_BY(mutex_);
  Pool streams_ ABSL_GUARDED_BY(mutex_);
};

// For main(): calls of this process' servers need a place from now on; null: none do. Process-wide,
// as what a process can bear is a matter of the process and not of what it serves.
void SetAdmission(std::shared_ptr<Admission> admission);
// For those who answer calls: a place for the call of a caller who has been authorised, or why it
// was not.
absl::StatusOr<Admission::Ticket> Admit(const absl::StatusOr<auth::Caller>& caller,
                                        Admission::Kind kind);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_ADMISSION_H_
