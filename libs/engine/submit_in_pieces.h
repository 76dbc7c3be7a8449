#ifndef CAPSTAN_LIBS_ENGINE_SUBMIT_IN_PIECES_H_
#define CAPSTAN_LIBS_ENGINE_SUBMIT_IN_PIECES_H_

#include <vector>

#include "libs/store/commit_queue.h"
#include "libs/store/store.h"

namespace capstan::engine {

// Submits what one step persists, cut to fit transactions. `done` is for the last of the pieces:
// everything of the step is stored then, or the queue is dead. A crash may leave the first of them
// stored alone, so a step that can be this large must be one that its maker decides again.
void SubmitInPieces(store::CommitQueue& queue, std::vector<store::Put> puts,
                    std::vector<store::Delete> deletes, store::CommitQueue::Done done);

}  // namespace capstan::engine

#endif  // CAPSTAN_LIBS_ENGINE_SUBMIT_IN_PIECES_H_
