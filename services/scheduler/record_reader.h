#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORD_READER_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/store/store.h"

namespace capstan::scheduler {

// Reads every record of the scheduler's state at one revision, page by page, the leadership key
// excepted. One page at a time; the reader, which may go meanwhile, and the store are of the
// store's strand.
class RecordReader {
 public:
  struct Page {
    std::vector<store::KeyValue> kvs;
    int64_t revision = 0;
    bool last = false;
  };

  // At `revision`, or, if that is 0, at the newest one.
  RecordReader(store::Store* store, int64_t revision) : store_(store), revision_(revision) {}

  // `done` comes after this has returned. OUT_OF_RANGE if the revision has been compacted.
  void Next(absl::AnyInvocable<void(absl::StatusOr<Page>)> done);

 private:
  store::Store* const store_;
  int64_t revision_;
  size_t kind_ = 0;
  std::string from_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORD_READER_H_
