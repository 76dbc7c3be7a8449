#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_COMMITTED_STATE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_COMMITTED_STATE_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/store/store.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::data_loader {

// Reads what is committed, for Get, List and Watch; never the engine's state, which runs ahead of
// the store. Answers come on the store's strand. Missing records are NOT_FOUND by resource name.
class CommittedState {
 public:
  template <typename T>
  using Answer = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // `store` must outlive this and what it was asked.
  explicit CommittedState(store::Store* store) : store_(store) {}

  void GetDataset(const std::string& name, Answer<capstan::dataloader::v1::Dataset> answer) const;
  void GetLoad(const std::string& name, Answer<capstan::dataloader::v1::DataLoad> answer) const;
  void GetBundle(const std::string& name, Answer<capstan::dataloader::v1::Bundle> answer) const;
  void GetOutput(const std::string& name, Answer<capstan::dataloader::v1::Output> answer) const;

  // By name; `after` is the last name of the page before, `limit` at most 1,000.
  void ListDatasets(const std::string& parent, const std::string& after, int limit,
                    Answer<std::vector<capstan::dataloader::v1::Dataset>> answer) const;
  // All of a project, newest first; at most 10,000.
  void ListLoads(const std::string& parent,
                 Answer<std::vector<capstan::dataloader::v1::DataLoad>> answer) const;

 private:
  store::Store* const store_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_COMMITTED_STATE_H_
