#include "libs/session/fencing_token.h"

#include "absl/strings/str_cat.h"

namespace capstan::session {

std::strong_ordering CompareTokens(const capstan::type::v1::FencingToken& a,
                                   const capstan::type::v1::FencingToken& b) {
  const auto by_incarnation = a.store_incarnation() <=> b.store_incarnation();
  return by_incarnation != 0 ? by_incarnation : a.leader_epoch() <=> b.leader_epoch();
}

std::string TokenText(const capstan::type::v1::FencingToken& token) {
  return absl::StrCat(token.store_incarnation(), ".", token.leader_epoch());
}

}  // namespace capstan::session
