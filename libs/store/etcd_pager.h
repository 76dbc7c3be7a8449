#ifndef CAPSTAN_LIBS_STORE_ETCD_PAGER_H_
#define CAPSTAN_LIBS_STORE_ETCD_PAGER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "libs/store/store.h"

namespace capstan::store {

// In which pieces a range is read, so that neither an answer of etcd's grows without bound nor what
// it does for one. etcd counts, for each answer, all keys of the range that is asked for, however
// few the limit lets it return (server/storage/mvcc/index.go of v3.6, treeIndex.Revisions): a
// million keys read page by page to the range's end would be counted a thousand times. So where
// there are many, what is asked for ends with the last key that shares a prefix with the next one,
// a prefix that is made longer or shorter by what the answers count. Whatever the keys look like
// the result is the same; keys that differ in their last bytes are counted a few times.
//
// A value, of one reading; pure.
class EtcdPager {
 public:
  // What a reading found out for the next one of the same range.
  struct Pace {
    // Length of the prefix; 0: what is asked for reaches to the end of the range.
    size_t prefix = 0;
    // Keys that share the one in hand, as far as they were counted.
    int64_t counted = 0;
    // Mean of the records that were read; 0 if none were.
    int64_t record_bytes = 0;
  };

  // The request has passed CheckRange.
  EtcdPager(RangeRequest request, Pace pace);

  // What to ask for next; not once all is taken.
  RangeRequest Next() const;
  // Takes the answer to that: what it returned, of how many keys in what was asked for, and its
  // size. True once all is taken.
  bool Take(RangeResult page, int64_t count, int64_t bytes);

  RangeResult TakeResult() { return std::move(result_); }
  Pace pace() const { return pace_; }

 private:
  // Where what is asked for ends.
  std::string End() const;
  int64_t PageLimit() const;

  const RangeRequest request_;
  // One more than wanted tells whether there is more.
  const int64_t wanted_;
  Pace pace_;
  std::string next_key_;
  int64_t revision_;
  int64_t bytes_ = 0;
  RangeResult result_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_PAGER_H_
