#include "libs/trace/span_queue.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace capstan::trace {

void SpanQueue::End(Span span) {
  absl::MutexLock lock(&mutex_);
  if (spans_.size() >= capacity_) {
    dropped_.Increment();
    return;
  }
  spans_.push_back(std::move(span));
  if (notice_ && spans_.size() == level_) notice_();
}

std::vector<Span> SpanQueue::Take(size_t most) {
  absl::MutexLock lock(&mutex_);
  const auto end = spans_.begin() + static_cast<ptrdiff_t>(std::min(most, spans_.size()));
  std::vector<Span> taken(std::make_move_iterator(spans_.begin()), std::make_move_iterator(end));
  spans_.erase(spans_.begin(), end);
  return taken;
}

size_t SpanQueue::size() const {
  absl::MutexLock lock(&mutex_);
  return spans_.size();
}

void SpanQueue::NotifyAt(size_t level, std::function<void()> notice) {
  absl::MutexLock lock(&mutex_);
  level_ = level;
  notice_ = std::move(notice);
}

}  // namespace capstan::trace
