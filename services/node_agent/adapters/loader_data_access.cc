#include "services/node_agent/adapters/loader_data_access.h"

#include <utility>

#include "libs/rpc/call.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/node_agent/adapters/commit_request.h"

namespace capstan::node_agent {
namespace {

namespace dl = capstan::dataloader::v1;
using BundleAsync = dl::BundleService::StubInterface::async_interface;
using LoadAsync = dl::DataLoadService::StubInterface::async_interface;
using OutputAsync = dl::OutputService::StubInterface::async_interface;

// Short, so that a Task that waits for data_loader says so; PREPARE asks again.
constexpr absl::Duration kDeadline = absl::Seconds(20);
// A commit hashes and moves the files.
constexpr absl::Duration kCommitDeadline = absl::Minutes(10);

auto Directory(DataAccess::Callback<std::string> done) {
  return [done = std::move(done)](absl::StatusOr<dl::PinVersionResponse> answer) mutable {
    if (!answer.ok()) return done(answer.status());
    done(answer->directory());
  };
}

class LoaderDataAccess final : public DataAccess {
 public:
  LoaderDataAccess(const std::shared_ptr<grpc::Channel>& channel, Strand* strand)
      : bundles_(dl::BundleService::NewStub(channel)),
        loads_(dl::DataLoadService::NewStub(channel)),
        outputs_(dl::OutputService::NewStub(channel)),
        strand_(strand) {}

  void OpenOutput(const std::string& output, const std::string& job_uid, int64_t generation,
                  Callback<OpenedOutput> done) override {
    dl::OpenOutputRequest request;
    request.set_name(output);
    request.set_job_uid(job_uid);
    request.set_generation(generation);
    rpc::CallUnary(outputs_.get(), &OutputAsync::OpenOutput, std::move(request),
                   {.deadline = kDeadline}, strand_,
                   [done = std::move(done)](absl::StatusOr<dl::OpenOutputResponse> answer) mutable {
                     if (!answer.ok()) return done(answer.status());
                     done(OpenedOutput{answer->resume_from().directory(), answer->staging_root()});
                   });
  }

  void PinBundle(const std::string& bundle, const std::string& holder,
                 Callback<std::string> done) override {
    dl::PinBundleRequest request;
    request.set_name(bundle);
    request.set_holder(holder);
    rpc::CallUnary(bundles_.get(), &BundleAsync::PinBundle, std::move(request),
                   {.deadline = kDeadline}, strand_, Directory(std::move(done)));
  }

  void PinVersion(const std::string& version, const std::string& holder,
                  Callback<std::string> done) override {
    dl::PinVersionRequest request;
    request.set_version(version);
    request.set_holder(holder);
    rpc::CallUnary(loads_.get(), &LoadAsync::PinVersion, std::move(request),
                   {.deadline = kDeadline}, strand_, Directory(std::move(done)));
  }

  void CommitOutput(const OutputCommit& commit, Callback<std::string> done) override {
    dl::CommitOutputRequest request = CommitRequestOf(commit);
    request.set_staging_directory(commit.directory);
    rpc::CallUnary(
        outputs_.get(), &OutputAsync::CommitOutput, std::move(request),
        {.deadline = kCommitDeadline}, strand_,
        [done = std::move(done)](absl::StatusOr<dl::CommitOutputResponse> answer) mutable {
          if (!answer.ok()) return done(answer.status());
          done(answer->manifest_digest());
        });
  }

  void ReleasePins(const std::string& holder, DoneCallback done) override {
    dl::ReleasePinsRequest request;
    request.set_holder(holder);
    rpc::CallUnary(
        loads_.get(), &LoadAsync::ReleasePins, std::move(request), {.deadline = kDeadline}, strand_,
        [done = std::move(done)](absl::StatusOr<dl::ReleasePinsResponse> answer) mutable {
          done(answer.status());
        });
  }

 private:
  const std::unique_ptr<dl::BundleService::Stub> bundles_;
  const std::unique_ptr<dl::DataLoadService::Stub> loads_;
  const std::unique_ptr<dl::OutputService::Stub> outputs_;
  Strand* const strand_;
};

}  // namespace

std::unique_ptr<DataAccess> MakeLoaderDataAccess(const std::shared_ptr<grpc::Channel>& channel,
                                                 Strand* strand) {
  return std::make_unique<LoaderDataAccess>(channel, strand);
}

}  // namespace capstan::node_agent
