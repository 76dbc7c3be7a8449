#ifndef CAPSTAN_SERVICES_DATA_LOADER_CORE_DATASET_REQUEST_H_
#define CAPSTAN_SERVICES_DATA_LOADER_CORE_DATASET_REQUEST_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::data_loader {

// INVALID_ARGUMENT with every wrong field: names, id, `file://` source with an absolute path,
// or `http://` or `https://` URL without user and query, at most 10,000 objects with safe paths.
absl::Status CheckCreateDataset(const capstan::dataloader::v1::CreateDatasetRequest& request);
absl::Status CheckOpenOutput(const capstan::dataloader::v1::OpenOutputRequest& request);

// A serialisation that is the same for equal messages, whatever the order of map entries.
std::string DeterministicBytes(const google::protobuf::Message& message);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_CORE_DATASET_REQUEST_H_
