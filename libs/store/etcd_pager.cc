#include "libs/store/etcd_pager.h"

#include <algorithm>
#include <utility>

#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

// Of the largest values, as the first page is where nothing is known.
constexpr int64_t kFirstPage = 128;
constexpr int64_t kMaxPage = 4096;
constexpr int64_t kPageBytes = 8 << 20;
// Keys that are counted for one answer: more than that the prefix gets longer, and, where they were
// all, fewer than that shorter. Their quotient is above 16, by which hexadecimal names fan out.
constexpr int64_t kMostCounted = 8192;
constexpr int64_t kLeastCounted = 256;

size_t CommonPrefix(const std::string& a, const std::string& b) {
  return std::mismatch(a.begin(), a.begin() + static_cast<int64_t>(std::min(a.size(), b.size())),
                       b.begin())
             .first -
         a.begin();
}

}  // namespace

EtcdPager::EtcdPager(RangeRequest request, Pace pace)
    : request_(std::move(request)),
      wanted_(request_.end.empty() ? 1 : EffectiveLimit(request_.limit) + 1),
      pace_(pace),
      next_key_(request_.key),
      revision_(request_.revision) {}

std::string EtcdPager::End() const {
  if (pace_.prefix == 0 || request_.end.empty()) return request_.end;
  return std::min(PrefixEnd(next_key_.substr(0, pace_.prefix)), request_.end);
}

int64_t EtcdPager::PageLimit() const {
  if (pace_.record_bytes == 0) return kFirstPage;
  return std::clamp(kPageBytes / pace_.record_bytes, kFirstPage, kMaxPage);
}

RangeRequest EtcdPager::Next() const {
  return {.key = next_key_,
          .end = End(),
          .limit = std::min(PageLimit(), wanted_ - static_cast<int64_t>(result_.kvs.size())),
          .revision = revision_};
}

bool EtcdPager::Take(RangeResult page, int64_t count, int64_t bytes) {
  const std::string end = End();
  revision_ = result_.revision = page.revision;
  const bool all = !page.more || page.kvs.empty();
  pace_.counted = std::max(pace_.counted, count);
  if (count > kMostCounted && !page.kvs.empty()) {
    pace_.prefix =
        std::max(pace_.prefix + 1, CommonPrefix(page.kvs.front().key, page.kvs.back().key));
    pace_.counted = 0;
  } else if (all) {
    if (pace_.counted < kLeastCounted && pace_.prefix > 1 && end != request_.end) --pace_.prefix;
    pace_.counted = 0;
  }
  next_key_ = all ? end : page.kvs.back().key + '\0';
  for (KeyValue& kv : page.kvs) result_.kvs.push_back(std::move(kv));
  const auto read = static_cast<int64_t>(result_.kvs.size());
  bytes_ += bytes;
  if (read > 0) pace_.record_bytes = std::max<int64_t>(1, bytes_ / read);
  if (request_.end.empty()) return true;
  if (read == wanted_) {
    result_.more = true;
    result_.kvs.pop_back();
    return true;
  }
  return all && end == request_.end;
}

}  // namespace capstan::store
