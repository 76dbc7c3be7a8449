// What a damaged store or a foreign backup may hold as records of any service: each is taken or
// refused, alone and with others, and what a restore makes of one that was taken is taken too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/store/service_records.h"
#include "tools/capstan/admin/stored_services.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::store::CheckStoredRecord;
using capstan::store::ServiceRecords;

// Of ids, so that records name each other now and then.
const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{"a",
                                                           "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b",
                                                           "projects/p",
                                                           "projects/p/jobs/j",
                                                           "projects/p/datasets/d",
                                                           "queues/default",
                                                           "clusters/c/nodes/n",
                                                           "000000000001",
                                                           "000000"};
  return words;
}

std::pair<std::string, std::string> MakeRecord(const ServiceRecords& service, FuzzInput* input) {
  const ServiceRecords::Kind& kind = service.kinds[input->Below(service.kinds.size())];
  std::string key =
      absl::StrCat("/capstan/", service.service, "/v", service.schema, "/", kind.prefix);
  if (absl::EndsWith(kind.prefix, "/")) {
    absl::StrAppend(&key, input->Word(Words()));
    if (input->Flag()) absl::StrAppend(&key, "/", input->Word(Words()));
  }
  if (kind.prototype == nullptr || input->Below(4) == 1) {
    return {std::move(key), std::string(input->Bytes(64))};
  }
  const std::unique_ptr<google::protobuf::Message> record(kind.prototype->New());
  capstan::fuzzing::FillMessage(Words(), input, record.get());
  return {std::move(key), record->SerializePartialAsString()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& services =
      *new std::vector<capstan::admin::StoredService>(capstan::admin::StoredServices());
  FuzzInput input(data, size);
  const ServiceRecords& service = services[input.Below(services.size())].records;
  const auto checker = service.make_checker == nullptr ? nullptr : service.make_checker();
  std::vector<std::pair<std::string, std::string>> records;
  while (!input.empty() && records.size() < 16) records.push_back(MakeRecord(service, &input));
  // As a store gives them.
  std::sort(records.begin(), records.end());
  for (const auto& [key, value] : records) {
    if (!CheckStoredRecord(service, key, value).ok()) continue;
    std::string restored = value;
    if (service.prepare_restored != nullptr) service.prepare_restored(key, &restored);
    Require(CheckStoredRecord(service, key, restored).ok());
    if (checker != nullptr && !checker->See(key, value).ok()) return 0;
  }
  if (checker != nullptr) checker->Finish().IgnoreError();
  return 0;
}
