#ifndef CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_DATA_LOADER_SOURCE_H_
#define CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_DATA_LOADER_SOURCE_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "grpcpp/channel.h"
#include "libs/log/log.h"
#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/scheduler/ports/data_source.h"

namespace capstan::scheduler {

// The data_loader by gRPC: EnsureDataLoad, then WatchDataLoad until it is final. What the loader
// says of a Dataset for good (it is not there, it has failed) is reported; everything else is tried
// again, with back-off, for ever.
class DataLoaderSource final : public DataSource {
 public:
  // All must outlive it, and the strand must have stopped, or run what was posted, before it goes.
  DataLoaderSource(const std::shared_ptr<grpc::Channel>& channel, Strand* strand, Random random,
                   const log::Logger* logger);
  ~DataLoaderSource() override;

  void Ensure(const EnsureData& wanted, Report report) override;
  void Stop(const std::string& job_uid) override;
  void ReleasePins(const std::string& job_uid, int64_t generation,
                   absl::AnyInvocable<void()> released) override;
  void StopAll() override;

 private:
  class Load;
  class Release;
  using Key = std::pair<std::string, int>;

  const std::shared_ptr<capstan::dataloader::v1::DataLoadService::Stub> stub_;
  Strand* const strand_;
  Random random_;
  const log::Logger* const logger_;
  std::map<Key, std::shared_ptr<Load>> loads_;
  std::set<std::shared_ptr<Release>> releases_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_DATA_LOADER_SOURCE_H_
