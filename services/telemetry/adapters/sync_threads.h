#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SYNC_THREADS_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SYNC_THREADS_H_

#include <cstddef>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace capstan::telemetry {

// Threads for work that is waiting for the disk. A file system carries out together what it is
// asked to sync at the same time, so that syncing many files at once takes little longer than
// syncing one. For one caller.
class SyncThreads {
 public:
  explicit SyncThreads(int threads);
  SyncThreads(const SyncThreads&) = delete;
  SyncThreads& operator=(const SyncThreads&) = delete;
  ~SyncThreads();

  // Runs `work` with each number below `count`, several at once and in no order, on the calling
  // thread too; returns when all are done.
  void Run(size_t count, absl::FunctionRef<void(size_t)> work);

 private:
  void Loop();
  // Takes numbers until there are no more.
  void Work() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  absl::FunctionRef<void(size_t)>* work_ ABSL_GUARDED_BY(mutex_) = nullptr;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SYNC_THREADS_H_
