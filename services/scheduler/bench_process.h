// A scheduler's process as the benchmarks over a real store have it, and what is submitted to it.
#ifndef CAPSTAN_SERVICES_SCHEDULER_BENCH_PROCESS_H_
#define CAPSTAN_SERVICES_SCHEDULER_BENCH_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/bench_replica.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"

namespace capstan::scheduler {

// Of all benchmarks' Jobs.
inline constexpr char kBenchProject[] = "projects/p";
inline constexpr char kBenchPerson[] = "person-1";

struct BenchProcess;

// Jobs of 1 to 128 GPUs and several priorities with specs of 1 KiB, no two the same; one after the
// other by its seed. For one thread at a time.
class BenchSubmissions {
 public:
  explicit BenchSubmissions(uint64_t seed) : random_(seed) {}

  std::shared_ptr<const CreateJob> Next(const BenchProcess& process);
  capstan::scheduler::v1::JobSpec NextSpec(const CoreConfig& config);

 private:
  Random random_;
  int created_ = 0;
};

// An open store and what is beside it, its strand on the core apart; ends as a process does that
// stops. Not to be used on the strand, unless it is said.
struct BenchProcess {
  using OpenStore = std::function<absl::StatusOr<std::unique_ptr<store::Store>>(Strand* strand)>;

  // `open` may block until the strand has run what it posts.
  explicit BenchProcess(const OpenStore& open);
  ~BenchProcess();
  BenchProcess(const BenchProcess&) = delete;
  BenchProcess& operator=(const BenchProcess&) = delete;

  // Makes the replica, and waits until it leads and has answered a first call, whose step holds a
  // round, and all of it can be read. `status` if the store did not open.
  absl::Status Begin(BenchReplica::Options options, BenchSubmissions* submissions);
  absl::Status FirstAnswer(BenchSubmissions* submissions);
  // As a client does: what is shed comes again once it may. On the strand.
  void Submit(std::shared_ptr<const CreateJob> create,
              const std::function<void(const absl::Status&)>& done);

  SystemClock clock;
  ThreadStrand strand{"scheduler", &clock};
  absl::Status status;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<BenchReplica> replica;
  // Submissions that were refused for the time being; the strand's.
  int shed = 0;

 private:
  // What takes the strand so long that it may cost the lease is worth a word on stderr.
  void Probe();

  Strand::TimerId probe_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_BENCH_PROCESS_H_
