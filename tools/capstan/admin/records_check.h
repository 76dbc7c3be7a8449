#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_RECORDS_CHECK_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_RECORDS_CHECK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/store/service_records.h"

namespace capstan::admin {

// What is wrong with the records of one store, from wherever they come.
class RecordsCheck {
 public:
  // `service` must outlive it.
  explicit RecordsCheck(const store::ServiceRecords& service);

  // Goes on after what is wrong; of that only so much is told.
  void See(absl::string_view key, absl::string_view value);
  // What is wrong with the store as such.
  void Wrong(const absl::Status& what);
  // After the last record.
  void Finish();

  int64_t records() const { return records_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void Note(const absl::Status& status);

  const store::ServiceRecords& service_;
  // Null if nothing must hold between records.
  std::unique_ptr<store::ReferenceChecker> references_;
  int64_t records_ = 0;
  bool whole_ = true;
  std::vector<std::string> problems_;
};

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_RECORDS_CHECK_H_
