// Reading of stored records.
#ifndef CAPSTAN_LIBS_STORE_RECORD_H_
#define CAPSTAN_LIBS_STORE_RECORD_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/store/store.h"

namespace capstan::store {

// DATA_LOSS, reason RECORD_CORRUPT: what is stored at `key` is not what was written there.
absl::Status CorruptRecord(absl::string_view key);

// FAILED_PRECONDITION, reason RECORD_TOO_NEW, if a record is of a newer schema than `known`: an
// older program must not write back what it does not understand.
absl::Status CheckRecordSchema(absl::string_view key, int found, int known);

// Parses the record stored at `key`, a proto message, and checks its schema version if it has one.
// Errors: RECORD_CORRUPT, RECORD_TOO_NEW; both name the key.
template <typename Record>
absl::Status ParseRecord(absl::string_view key, absl::string_view value, int known_schema,
                         Record* record) {
  if (!record->ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return CorruptRecord(key);
  }
  if constexpr (requires { record->schema_version(); }) {
    return CheckRecordSchema(key, record->schema_version(), known_schema);
  } else if constexpr (requires { record->schema(); }) {
    return CheckRecordSchema(key, record->schema(), known_schema);
  } else {
    return absl::OkStatus();
  }
}

template <typename Record>
absl::Status ParseRecord(const KeyValue& kv, int known_schema, Record* record) {
  return ParseRecord(kv.key, kv.value, known_schema, record);
}

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_RECORD_H_
