#ifndef CAPSTAN_SERVICES_SCHEDULER_API_BODY_HASH_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_BODY_HASH_H_

#include <string>

#include "libs/digest/sha256.h"
#include "libs/session/lower_side.h"

namespace capstan::scheduler {

// What a request asks for, by which one that is sent again is told from another that has its
// request_id.
template <typename Request>
std::string BodyHash(Request request) {
  request.clear_request_id();
  return Sha256::Of(session::SerializeDeterministic(request));
}

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_BODY_HASH_H_
