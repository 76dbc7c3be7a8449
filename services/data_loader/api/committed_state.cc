#include "services/data_loader/api/committed_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/store/record.h"
#include "libs/time/proto_time.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/core/records.pb.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr int64_t kMaxLoads = 10'000;

// `part` takes the resource out of its record.
template <typename Record, typename T, typename Part>
void GetOne(store::Store* store, const std::string& key, const std::string& name, Part part,
            absl::AnyInvocable<void(absl::StatusOr<T>)> answer) {
  store->Range({.key = key}, [name, part, answer = std::move(answer)](
                                 absl::StatusOr<store::RangeResult> result) mutable {
    if (!result.ok()) return answer(result.status());
    if (result->kvs.empty()) return answer(status::NotFound(name));
    Record record;
    const absl::Status parsed = store::ParseRecord(result->kvs.front(), kSchemaVersion, &record);
    if (!parsed.ok()) return answer(parsed);
    answer(part(record));
  });
}

template <typename Record, typename T, typename Part>
void GetMany(store::Store* store, store::RangeRequest request, Part part,
             absl::AnyInvocable<void(absl::StatusOr<std::vector<T>>)> answer) {
  store->Range(std::move(request), [part, answer = std::move(answer)](
                                       absl::StatusOr<store::RangeResult> result) mutable {
    if (!result.ok()) return answer(result.status());
    std::vector<T> found;
    for (const store::KeyValue& kv : result->kvs) {
      Record record;
      const absl::Status parsed = store::ParseRecord(kv, kSchemaVersion, &record);
      if (!parsed.ok()) return answer(parsed);
      found.push_back(part(record));
    }
    answer(std::move(found));
  });
}

}  // namespace

void CommittedState::GetDataset(const std::string& name, Answer<pb::Dataset> answer) const {
  GetOne<DatasetRecord, pb::Dataset>(
      store_, DatasetKey(name), name, [](const DatasetRecord& r) { return r.dataset(); },
      std::move(answer));
}

void CommittedState::GetLoad(const std::string& name, Answer<pb::DataLoad> answer) const {
  GetOne<LoadRecord, pb::DataLoad>(
      store_, LoadKey(name), name, [](const LoadRecord& r) { return r.load(); }, std::move(answer));
}

void CommittedState::GetBundle(const std::string& name, Answer<pb::Bundle> answer) const {
  GetOne<BundleRecord, pb::Bundle>(
      store_, BundleKey(name), name, [](const BundleRecord& r) { return r.bundle(); },
      std::move(answer));
}

void CommittedState::GetOutput(const std::string& name, Answer<pb::Output> answer) const {
  GetOne<OutputRecord, pb::Output>(
      store_, OutputKey(name), name, [](const OutputRecord& r) { return r.output(); },
      std::move(answer));
}

void CommittedState::ListDatasets(const std::string& parent, const std::string& after, int limit,
                                  Answer<std::vector<pb::Dataset>> answer) const {
  const std::string prefix = DatasetKey(absl::StrCat(parent, "/datasets/"));
  store::RangeRequest request;
  request.key = after.empty() ? prefix : DatasetKey(after) + '\0';
  request.end = store::PrefixEnd(prefix);
  request.limit = limit;
  GetMany<DatasetRecord, pb::Dataset>(
      store_, std::move(request), [](const DatasetRecord& r) { return r.dataset(); },
      std::move(answer));
}

void CommittedState::ListLoads(const std::string& parent,
                               Answer<std::vector<pb::DataLoad>> answer) const {
  const std::string prefix = LoadKey(absl::StrCat(parent, "/dataLoads/"));
  store::RangeRequest request;
  request.key = prefix;
  request.end = store::PrefixEnd(prefix);
  request.limit = kMaxLoads;
  GetMany<LoadRecord, pb::DataLoad>(
      store_, std::move(request), [](const LoadRecord& r) { return r.load(); },
      [answer = std::move(answer)](absl::StatusOr<std::vector<pb::DataLoad>> loads) mutable {
        if (loads.ok()) {
          std::sort(loads->begin(), loads->end(), [](const pb::DataLoad& a, const pb::DataLoad& b) {
            const absl::Time a_time = ToTime(a.create_time());
            const absl::Time b_time = ToTime(b.create_time());
            return a_time != b_time ? a_time > b_time : a.name() < b.name();
          });
        }
        answer(std::move(loads));
      });
}

}  // namespace capstan::data_loader
