#include "libs/store/record.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::store {

absl::Status CorruptRecord(absl::string_view key) {
  return status::Error(absl::StatusCode::kDataLoss, "RECORD_CORRUPT",
                       absl::StrCat("the record at '", key, "' cannot be read"),
                       {{"key", std::string(key)}});
}

absl::Status CheckRecordSchema(absl::string_view key, int found, int known) {
  if (found <= known) return absl::OkStatus();
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "RECORD_TOO_NEW",
      absl::StrCat("the record at '", key, "' has schema version ", found,
                   "; this program knows up to ", known, ": run the newer one"),
      {{"key", std::string(key)}, {"schema", absl::StrCat(found)}, {"known", absl::StrCat(known)}});
}

}  // namespace capstan::store
