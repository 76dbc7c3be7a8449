#ifndef CAPSTAN_LIBS_MIG_PLACED_INSTANCE_H_
#define CAPSTAN_LIBS_MIG_PLACED_INSTANCE_H_

#include "absl/status/status.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::mig {

// Of two instances of one Node, whether they are one: same GPU, model, profile and position.
bool IsSameInstance(const capstan::type::v1::MigInstance& a,
                    const capstan::type::v1::MigInstance& b);

// Whether they have a memory slice of one GPU in common. One of a model or a profile that is not
// known is taken to have the whole GPU.
bool Overlap(const capstan::type::v1::MigInstance& a, const capstan::type::v1::MigInstance& b);

// Whether the table of its model has such a profile, which may stand where it is to.
// FAILED_PRECONDITION, reason WRONG_MIG_PLACEMENT, says what was found and what was expected.
absl::Status CheckPlacement(const capstan::type::v1::MigInstance& instance);

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_PLACED_INSTANCE_H_
