#include "libs/engine/submit_in_pieces.h"

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace capstan::engine {
namespace {

struct Submission {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
};

// In order.
std::vector<Submission> CutToFit(std::vector<store::Put> puts, std::vector<store::Delete> deletes) {
  // Room is left for what the queue adds.
  constexpr size_t kOps = store::kMaxTxnOps - 8;
  constexpr size_t kBytes = store::kMaxTxnBytes / 2;
  std::vector<Submission> pieces(1);
  size_t ops = 0;
  size_t bytes = 0;
  const auto room = [&](size_t size) {
    if (ops > 0 && (ops + 1 > kOps || bytes + size > kBytes)) {
      pieces.emplace_back();
      ops = 0;
      bytes = 0;
    }
    ++ops;
    bytes += size;
  };
  for (store::Put& put : puts) {
    room(put.key.size() + put.value.size());
    pieces.back().puts.push_back(std::move(put));
  }
  for (store::Delete& key : deletes) {
    room(key.key.size());
    pieces.back().deletes.push_back(std::move(key));
  }
  return pieces;
}

}  // namespace

void SubmitInPieces(store::CommitQueue& queue, std::vector<store::Put> puts,
                    std::vector<store::Delete> deletes, store::CommitQueue::Done done) {
  std::vector<Submission> pieces = CutToFit(std::move(puts), std::move(deletes));
  Submission last = std::move(pieces.back());
  pieces.pop_back();
  for (Submission& piece : pieces) {
    // If it fails so does the last.
    queue.Submit(std::move(piece.puts), std::move(piece.deletes), [](absl::StatusOr<int64_t>) {});
  }
  queue.Submit(std::move(last.puts), std::move(last.deletes), std::move(done));
}

}  // namespace capstan::engine
