#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_KEY_KEEPER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_KEY_KEEPER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::credentials {

// Wraps data keys under a key of its own that never leaves it: a file today, a KMS or an HSM where
// there is one. Thread-safe. Calls may block, so they are made at start and never on a strand.
class KeyKeeper {
 public:
  virtual ~KeyKeeper() = default;

  // Names the wrapping key; kept beside what it wrapped. Says nothing about the key.
  virtual std::string key_id() const = 0;

  // Wraps a data key. `context` is bound to the result: unwrapping with another one fails. Two
  // calls never give the same bytes.
  virtual absl::StatusOr<std::string> Wrap(absl::string_view data_key,
                                           absl::string_view context) = 0;
  // DATA_LOSS if the bytes were not wrapped by this key under this context; the message never holds
  // key material.
  virtual absl::StatusOr<std::string> Unwrap(absl::string_view wrapped,
                                             absl::string_view context) = 0;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_KEY_KEEPER_H_
