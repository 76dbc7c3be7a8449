#include "integration/bench/load_bench.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "integration/bench/bench_platform.h"
#include "integration/bench/figure.h"
#include "integration/bench/machine_limits.h"
#include "libs/random/random.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "tools/capstan/cli/call.h"

namespace capstan::bench {
namespace {

namespace pb = ::capstan::dataloader::v1;
namespace fs = std::filesystem;

constexpr size_t kMebibyte = size_t{1} << 20;

struct Shape {
  int files;
  size_t bytes_each;

  double bytes() const { return static_cast<double>(files) * static_cast<double>(bytes_each); }
};

std::string RandomBytes(Random& random, size_t size) {
  std::string bytes;
  bytes.reserve(size + sizeof(uint64_t));
  while (bytes.size() < size) {
    const uint64_t next = random.Next();
    bytes.append(reinterpret_cast<const char*>(&next), sizeof next);
  }
  bytes.resize(size);
  return bytes;
}

// Files that no folder before had, written and synced, so that the disk is idle afterwards.
absl::Status MakeFolder(const std::string& path, const Shape& shape, Random& random) {
  std::error_code error;
  fs::create_directories(path, error);
  // Few bytes need to differ for all digests to.
  std::string bytes = RandomBytes(random, shape.bytes_each);
  for (int i = 0; i < shape.files; ++i) {
    bytes.replace(0, sizeof(uint64_t), RandomBytes(random, sizeof(uint64_t)));
    const std::string file = absl::StrCat(path, "/f", i);
    const UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    CAPSTAN_RETURN_IF_ERROR(WriteAll(fd.get(), bytes, file));
  }
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (syncfs(folder.get()) != 0) return ErrnoStatus(errno, "syncing", path);
  return absl::OkStatus();
}

class Loader {
 public:
  Loader(const Bench& bench, BenchPlatform& platform, const std::shared_ptr<grpc::Channel>& channel)
      : bench_(bench),
        bucket_(platform.platform().data_dir() + "/buckets"),
        copies_(platform.platform().folder() + "/copies"),
        random_(platform.random()),
        datasets_(pb::DatasetService::NewStub(channel)),
        loads_(pb::DataLoadService::NewStub(channel)) {
    mkdir(bucket_.c_str(), 0700);
    mkdir(copies_.c_str(), 0700);
  }

  struct Times {
    absl::Duration load;
    absl::Duration copy;
  };
  // A new folder of this shape, loaded and copied; which comes first alternates.
  absl::StatusOr<Times> Run(const Shape& shape) {
    const std::string id = absl::StrCat("d", ++number_);
    const std::string source = absl::StrCat(bucket_, "/", id);
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(source, shape, random_));
    Times times;
    for (const bool load : {number_ % 2 == 0, number_ % 2 != 0}) {
      absl::Duration& taken = load ? times.load : times.copy;
      if (load) {
        CAPSTAN_ASSIGN_OR_RETURN(taken, Load(id, source));
      } else {
        CAPSTAN_ASSIGN_OR_RETURN(taken, Copy(id, source));
      }
    }
    std::error_code ignored;
    fs::remove_all(source, ignored);
    fs::remove_all(copies_ + "/" + id, ignored);
    return times;
  }
  const std::string& folder() const { return copies_; }

 private:
  absl::StatusOr<absl::Duration> Load(const std::string& id, const std::string& source) {
    pb::CreateDatasetRequest create;
    create.set_parent("projects/default");
    create.set_dataset_id(id);
    create.mutable_dataset()->set_source_uri(absl::StrCat("file://", source, "/"));
    create.set_request_id(random_.Uuid4());
    // As a command does it: a data_loader that is ready may still be loading what it has stored.
    const cli::CallTerms terms{bench_.clock, &random_, absl::Seconds(30)};
    CAPSTAN_ASSIGN_OR_RETURN(
        const pb::Dataset dataset,
        cli::Call(datasets_.get(), &pb::DatasetService::Stub::CreateDataset, create, terms));
    const Stopwatch watch(bench_.clock);
    pb::EnsureDataLoadRequest ensure;
    ensure.set_dataset(dataset.name());
    pb::DataLoad load;
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(30));
    CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus(loads_->EnsureDataLoad(&context, ensure, &load)));
    // A watch says it up to half a second later.
    absl::Status status;
    const bool over = AskUntil(bench_.clock, absl::Minutes(5), [&] {
      pb::GetDataLoadRequest get;
      get.set_name(load.name());
      grpc::ClientContext ask;
      rpc::SetDeadline(ask, absl::Seconds(30));
      status = rpc::FromGrpcStatus(loads_->GetDataLoad(&ask, get, &load));
      return !status.ok() || load.state() == pb::DataLoad::STATE_SUCCEEDED ||
             load.state() == pb::DataLoad::STATE_FAILED;
    });
    const absl::Duration elapsed = watch.Elapsed();
    CAPSTAN_RETURN_IF_ERROR(status);
    if (!over || load.state() != pb::DataLoad::STATE_SUCCEEDED) {
      return absl::InternalError(absl::StrCat("the load has not succeeded: ", load.message()));
    }
    return elapsed;
  }

  absl::StatusOr<absl::Duration> Copy(const std::string& id, const std::string& source) {
    // Each file is synced, as whoever wants to rely on it must.
    const std::string script = "cp -r \"$0\" \"$1\" && find \"$1\" -type f -exec sync {} +";
    return RunToEnd(bench_.clock, {"/bin/sh", "-c", script, source, absl::StrCat(copies_, "/", id)},
                    {"PATH=/usr/bin:/bin"});
  }

  const Bench bench_;
  const std::string bucket_;
  const std::string copies_;
  Random& random_;
  const std::unique_ptr<pb::DatasetService::Stub> datasets_;
  const std::unique_ptr<pb::DataLoadService::Stub> loads_;
  int number_ = 0;
};

}  // namespace

absl::Status BenchLoads(const Bench& bench) {
  BenchPlatform platform(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Person("data_loader"));
  Loader loader(bench, platform, channel);
  const Shape large{4, static_cast<size_t>(bench.Count(64, 4)) * kMebibyte};
  const Shape small{bench.Count(1000, 50), 4096};
  std::vector<double> disk;
  std::vector<double> rate;
  std::vector<double> copy_rate;
  std::vector<double> ratio;
  std::vector<double> objects;
  std::vector<double> copied_objects;
  for (int run = 0; run < bench.Runs(7); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(
        const double synced,
        SyncedMegabytesPerSecond(bench.clock, loader.folder(), bench.Count(256, 16)));
    disk.push_back(synced);
    CAPSTAN_ASSIGN_OR_RETURN(const Loader::Times big, loader.Run(large));
    rate.push_back(large.bytes() / 1e6 / absl::ToDoubleSeconds(big.load));
    copy_rate.push_back(large.bytes() / 1e6 / absl::ToDoubleSeconds(big.copy));
    ratio.push_back(rate.back() / copy_rate.back());
    CAPSTAN_ASSIGN_OR_RETURN(const Loader::Times many, loader.Run(small));
    objects.push_back(small.files / absl::ToDoubleSeconds(many.load));
    copied_objects.push_back(small.files / absl::ToDoubleSeconds(many.copy));
  }
  const std::string conditions = absl::StrCat(
      "a Dataset of ", large.files, " files of ", large.bytes_each / kMebibyte,
      " MiB that the page cache has, from EnsureDataLoad to SUCCEEDED: copied, synced, read back, "
      "hashed and published; in turns with `cp -r` and `sync` of each file");
  bench.report({.name = "load_mb_per_s_ratio_to_cp",
                .values = ratio,
                .unit = "1",
                .better = Better::kHigher,
                .limit = 1,
                .limit_name = "cp and fsync, without verification",
                .bar = 0.9,
                .conditions = conditions});
  bench.report({.name = "load_mb_per_s",
                .values = rate,
                .unit = "MB/s",
                .better = Better::kHigher,
                .limit = Median(disk),
                .limit_name = "what the disk writes and syncs every 4 MiB, MB/s",
                .conditions = conditions});
  bench.report({.name = "load_objects_per_s.bytes4096",
                .values = objects,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = Median(copied_objects),
                .limit_name = "cp and fsync of each, 1/s",
                .conditions = absl::StrCat("a Dataset of ", small.files,
                                           " files of 4 KiB, otherwise as load_mb_per_s")});
  return absl::OkStatus();
}

}  // namespace capstan::bench
