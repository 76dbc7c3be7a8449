// Order of those who may speak for the scheduler.
#ifndef CAPSTAN_LIBS_SESSION_FENCING_TOKEN_H_
#define CAPSTAN_LIBS_SESSION_FENCING_TOKEN_H_

#include <compare>
#include <string>

#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::session {

// By store_incarnation, then leader_epoch; an unset token is below every other.
std::strong_ordering CompareTokens(const capstan::type::v1::FencingToken& a,
                                   const capstan::type::v1::FencingToken& b);

// `<store_incarnation>.<leader_epoch>`, for messages.
std::string TokenText(const capstan::type::v1::FencingToken& token);

}  // namespace capstan::session

#endif  // CAPSTAN_LIBS_SESSION_FENCING_TOKEN_H_
