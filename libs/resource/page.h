// Paging (AIP-158).
#ifndef CAPSTAN_LIBS_RESOURCE_PAGE_H_
#define CAPSTAN_LIBS_RESOURCE_PAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace capstan::resource {

// 0 becomes 100, more than 1,000 becomes 1,000, a negative size is INVALID_ARGUMENT with a
// violation of `page_size`.
absl::StatusOr<int> EffectivePageSize(int32_t requested);

// What may not change between the pages of one list: the request without its page_size and
// page_token, in a deterministic form. Streams' `resume_token` is left out likewise.
std::string PageArguments(const google::protobuf::Message& request);

// Seals positions into tokens and opens them again. A token is opaque and URL-safe, bound to the
// request's arguments, and carries no authority: it only says where to go on. Thread-safe.
class PageTokens {
 public:
  // `key` is secret and at least 16 bytes; all replicas of a service share it. A new key makes
  // tokens given out before invalid.
  explicit PageTokens(absl::string_view key);

  // `position` is at most 1 KiB, for instance the last key returned.
  std::string Seal(absl::string_view position, absl::string_view arguments) const;

  // The position; "" for an empty token (the first page). A token that was changed, made under
  // another key or for other arguments is INVALID_ARGUMENT with a violation of `field`.
  absl::StatusOr<std::string> Open(absl::string_view token, absl::string_view arguments,
                                   absl::string_view field = "page_token") const;

 private:
  std::string Mac(absl::string_view position, absl::string_view arguments) const;

  const std::string key_;
};

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_PAGE_H_
