#include "integration/simulation/dataset_owners.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "integration/simulation/dataset_witness.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/core/records.pb.h"

namespace capstan::simulation {

namespace pb = ::capstan::dataloader::v1;

namespace {

struct Owned {
  const char* id;
  const char* uri;
};

// Two have one source, so that their content is one.
constexpr Owned kDatasets[] = {
    {"digits", "file:///data/digits/"},       {"faces", "file:///data/faces/"},
    {"words", "file:///data/words/"},         {"maps", "file:///data/maps/"},
    {"digits-again", "file:///data/digits/"}, {"nowhere", "file:///data/nowhere/"}};
constexpr uint64_t kWithSource = 5;
// Of a Dataset; the Site has room for one of the largest and a small one.
constexpr int kMostParts = 5;

std::string NameOf(const char* id) { return absl::StrCat("projects/p/datasets/", id); }

}  // namespace

DatasetOwners::DatasetOwners(Network* network, const MachineClock* clock, LoaderActor* loader,
                             DatasetSources* sources)
    : Process(&network->world(), "dataset-owners", clock),
      network_(network),
      loader_(loader),
      sources_(sources) {}

void DatasetOwners::Act(absl::Duration end) {
  for (const Owned& dataset : kDatasets) {
    const bool has_source = NameOf(dataset.id) != DatasetWitness::kNowhere;
    if (has_source && sources_->Find(dataset.uri) == nullptr) {
      sources_->Replace(dataset.uri, kMostParts);
    }
    Make(dataset.id, dataset.uri, world().random().Uuid4());
  }
  Plan(end);
}

void DatasetOwners::Make(const std::string& id, const std::string& uri,
                         const std::string& request_id) {
  pb::CreateDatasetRequest request;
  request.set_parent("projects/p");
  request.set_dataset_id(id);
  request.mutable_dataset()->set_source_uri(uri);
  request.set_request_id(request_id);
  ++open_;
  network_->Call<pb::Dataset>(
      this, loader_, [this, request](const auto& reply) { loader_->CreateDataset(request, reply); },
      [this, id, uri, request_id](const absl::StatusOr<pb::Dataset>& made) {
        --open_;
        if (made.ok()) {
          acknowledged_.insert(made->name());
          return;
        }
        ++open_;
        Later(absl::Seconds(2), [this, id, uri, request_id] {
          --open_;
          Make(id, uri, request_id);
        });
      });
}

void DatasetOwners::Plan(absl::Duration end) {
  Later(world().random().Between(absl::Seconds(20), absl::Minutes(2)), [this, end] {
    if (world().now() >= end) return;
    Plan(end);
    Random& random = world().random();
    const std::string uri = kDatasets[random.Below(kWithSource)].uri;
    if (!random.OneIn(4)) return sources_->Replace(uri, kMostParts);
    world().Log("source", absl::StrCat(uri, " is away for a while"));
    sources_->TakeAway(uri);
    Later(random.Between(absl::Seconds(5), absl::Seconds(40)),
          [this, uri] { sources_->BringBack(uri); });
  });
}

std::string DatasetOwners::AnyDataset() {
  Random& random = world().random();
  if (random.OneIn(12)) return DatasetWitness::kNowhere;
  return NameOf(kDatasets[random.Below(kWithSource)].id);
}

std::string DatasetOwners::NewestVersion(const std::string& dataset) const {
  data_loader::DatasetRecord record;
  const auto stored = loader_->disk().records.find(data_loader::DatasetKey(dataset));
  if (stored == loader_->disk().records.end() || !record.ParseFromString(stored->second)) return "";
  const std::string& version = record.dataset().latest_version();
  return version.empty() ? "" : version.substr(version.rfind('/') + 1);
}

bool DatasetOwners::Idle(std::string* why) const {
  if (open_ != 0) {
    *why = "owners of Datasets wait for the data_loader";
    return false;
  }
  for (const std::string& name : acknowledged_) {
    if (loader_->disk().records.count(data_loader::DatasetKey(name)) != 0) continue;
    *why = absl::StrCat("acknowledged ", name, " is not stored");
    return false;
  }
  return true;
}

}  // namespace capstan::simulation
