// What a service keeps in its store, for those who look after stores: which message lies at which
// key, what must hold between records, and what a restore has to change.
#ifndef CAPSTAN_LIBS_STORE_SERVICE_RECORDS_H_
#define CAPSTAN_LIBS_STORE_SERVICE_RECORDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace capstan::store {

// Sees every record of a store, then says what is wrong between them.
class ReferenceChecker {
 public:
  virtual ~ReferenceChecker() = default;
  // The record parses.
  virtual absl::Status See(absl::string_view key, absl::string_view value) = 0;
  virtual absl::Status Finish() = 0;
};

// As docs/store.md lists it. A service offers its own as `StoredRecords()` in stored_records.h.
struct ServiceRecords {
  struct Kind {
    // Of keys, behind `/capstan/<service>/v<schema>/`. One that ends in `/` is of many records.
    std::string prefix;
    // A default instance; null for what is no message.
    const google::protobuf::Message* prototype;
  };
  // As in the keys.
  std::string service;
  // Of keys and records.
  int schema = 1;
  // Beside `leader` and `outbox/`, which every service may have.
  std::vector<Kind> kinds{};
  // May be null.
  std::function<std::unique_ptr<ReferenceChecker>()> make_checker = nullptr;
  // Changes a record of a backup that is restored; may be null.
  std::function<void(absl::string_view key, std::string* value)> prepare_restored = nullptr;
};

// DATA_LOSS with RECORD_CORRUPT if the key is none that the service knows, or its value does not
// parse; FAILED_PRECONDITION with RECORD_TOO_NEW if the record is of a newer schema.
absl::Status CheckStoredRecord(const ServiceRecords& service, absl::string_view key,
                               absl::string_view value);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SERVICE_RECORDS_H_
