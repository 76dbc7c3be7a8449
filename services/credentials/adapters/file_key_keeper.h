#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_FILE_KEY_KEEPER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_FILE_KEY_KEEPER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/credentials/ports/key_keeper.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// Keeps its key in a file of 32 bytes that only the platform's uid may read: good against a lost
// backup or copy of the store, not against root of this machine.
class FileKeyKeeper final : public KeyKeeper {
 public:
  // Opens the file; makes it, durably, if there is none and `create` is set. FAILED_PRECONDITION if
  // it is a link, belongs to another uid, or others have any right to it; NOT_FOUND if it is absent
  // and may not be made. `source` must outlive the keeper.
  static absl::StatusOr<std::unique_ptr<FileKeyKeeper>> Open(const std::string& path, bool create,
                                                             SecretSource* source);
  ~FileKeyKeeper() override;

  std::string key_id() const override { return key_id_; }
  absl::StatusOr<std::string> Wrap(absl::string_view data_key, absl::string_view context) override;
  absl::StatusOr<std::string> Unwrap(absl::string_view wrapped, absl::string_view context) override;

 private:
  FileKeyKeeper(std::string key, SecretSource* source);

  std::string key_;
  // `file:` and 16 hex digits of the key's SHA-256.
  std::string key_id_;
  SecretSource* const source_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_FILE_KEY_KEEPER_H_
