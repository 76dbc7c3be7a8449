#ifndef CAPSTAN_LIBS_LOG_TESTING_SINK_H_
#define CAPSTAN_LIBS_LOG_TESTING_SINK_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/log/log.h"

namespace capstan::log {

// Keeps what is logged, for tests to look at. Thread-safe.
class TestingSink final : public Sink {
 public:
  void Write(const Record& record) override {
    absl::MutexLock lock(&mutex_);
    records_.push_back(record);
  }

  std::vector<Record> records() const {
    absl::MutexLock lock(&mutex_);
    return records_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<Record> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::log

#endif  // CAPSTAN_LIBS_LOG_TESTING_SINK_H_
