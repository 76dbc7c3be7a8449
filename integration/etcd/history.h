#ifndef CAPSTAN_INTEGRATION_ETCD_HISTORY_H_
#define CAPSTAN_INTEGRATION_ETCD_HISTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/store/store.h"
#include "libs/store/testing/linearizability.h"

namespace capstan::store {

// What concurrent callers of a store did while its servers failed, on one logical clock, with what
// they were told of it. Thread-safe.
class History {
 public:
  struct Counts {
    int answered = 0;
    // Told that it never took effect.
    int refused = 0;
    // Unknown whether it took effect, but not later than it was told.
    int settled = 0;
    int unknown = 0;
  };

  // One caller: reads, writes and compare-and-sets on three keys below `root`, one after another,
  // blocking until each is answered, as long as there are calls to make.
  void RunCaller(Store* store, const std::string& root, uint64_t seed);

  // So many more calls may be made, by all callers together.
  void Allow(int calls);
  // Waits until all calls allowed so far have been answered somehow, but not longer than
  // `patience`.
  void Await(absl::Duration patience);
  // Lets the callers end.
  void End();

  // Why no order of the calls explains what the callers saw; "" if one does.
  std::string Contradiction() const;
  // Revisions at which something was surely written, with the key.
  std::map<int64_t, std::string> writes() const;
  Counts counts() const;

 private:
  struct Revision {
    int64_t called_at;
    int64_t returned_at;
    int64_t revision;
    bool wrote;
    std::string key;
  };

  // Waits for a call to make; false if there will be none. `called_at` gets the time.
  bool Begin(int64_t* called_at);
  void Note(const std::string& key, RegisterOperation op, const absl::Status& status,
            int64_t revision);

  mutable absl::Mutex mutex_;
  int64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  int allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<RegisterOperation>> by_key_ ABSL_GUARDED_BY(mutex_);
  std::vector<Revision> revisions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::store

#endif  // CAPSTAN_INTEGRATION_ETCD_HISTORY_H_
