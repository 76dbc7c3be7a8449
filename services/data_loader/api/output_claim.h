#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_OUTPUT_CLAIM_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_OUTPUT_CLAIM_H_

#include "libs/auth/placement_claim.h"

namespace capstan::data_loader {

// Whose Output a request to open or commit one is about.
template <typename Request>
auth::PlacementClaim ClaimOf(const Request& request) {
  return {
      .job_uid = request.job_uid(), .generation = request.generation(), .output = request.name()};
}

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_OUTPUT_CLAIM_H_
