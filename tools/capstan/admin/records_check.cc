#include "tools/capstan/admin/records_check.h"

#include <cstddef>

namespace capstan::admin {
namespace {

constexpr size_t kMaxProblems = 20;

}  // namespace

RecordsCheck::RecordsCheck(const store::ServiceRecords& service) : service_(service) {
  if (service.make_checker != nullptr) references_ = service.make_checker();
}

void RecordsCheck::See(absl::string_view key, absl::string_view value) {
  ++records_;
  const absl::Status valid = store::CheckStoredRecord(service_, key, value);
  if (!valid.ok()) return Wrong(valid);
  if (references_ == nullptr || !whole_) return;
  Note(references_->See(key, value));
}

void RecordsCheck::Wrong(const absl::Status& what) {
  whole_ = false;
  if (problems_.size() < kMaxProblems) problems_.push_back(what.ToString());
}

void RecordsCheck::Finish() {
  // References of records that can't be read say nothing.
  if (references_ != nullptr && whole_) Note(references_->Finish());
}

void RecordsCheck::Note(const absl::Status& status) {
  if (!status.ok()) Wrong(status);
}

}  // namespace capstan::admin
