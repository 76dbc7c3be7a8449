#include "services/node_agent/adapters/loader_data_access.h"

#include <utility>

#include "absl/strings/str_cat.h"
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

std::string HolderOf(const std::string& job_uid, int64_t generation) {
  return absl::StrCat(job_uid, "/", generation);
}

auto Directory(DataAccess::Callback<std::string> done) {
  return [done = std::move(done)](absl::StatusOr<dl::PinVersionResponse> answer) mutable {
    if (!answer.ok()) return done(answer.status());
    done(answer->directory());
  };
}

class LoaderDataAccess final : public DataAccess {
 public:
  LoaderDataAccess(const std::shared_ptr<grpc::Channel>& channel, Strand* strand,
                   const GrantBook* grants)
      : bundles_(dl::BundleService::NewStub(channel)),
        loads_(dl::DataLoadService::NewStub(channel)),
        outputs_(dl::OutputService::NewStub(channel)),
        strand_(strand),
        grants_(grants) {}

  void OpenOutput(const std::string& output, const std::string& job_uid, int64_t generation,
                  Callback<OpenedOutput> done) override {
    dl::OpenOutputRequest request;
    request.set_name(output);
    request.set_job_uid(job_uid);
    request.set_generation(generation);
    rpc::CallUnary(outputs_.get(), &OutputAsync::OpenOutput, std::move(request),
                   Options(kDeadline, HolderOf(job_uid, generation)), strand_,
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
                   Options(kDeadline, holder), strand_, Directory(std::move(done)));
  }

  void PinVersion(const std::string& version, const std::string& holder,
                  Callback<std::string> done) override {
    dl::PinVersionRequest request;
    request.set_version(version);
    request.set_holder(holder);
    rpc::CallUnary(loads_.get(), &LoadAsync::PinVersion, std::move(request),
                   Options(kDeadline, holder), strand_, Directory(std::move(done)));
  }

  void CommitOutput(const OutputCommit& commit, Callback<std::string> done) override {
    dl::CommitOutputRequest request = CommitRequestOf(commit);
    request.set_staging_directory(commit.directory);
    rpc::CallUnary(
        outputs_.get(), &OutputAsync::CommitOutput, std::move(request),
        Options(kCommitDeadline, HolderOf(commit.job_uid, commit.generation)), strand_,
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
  rpc::CallOptions Options(absl::Duration deadline, const std::string& holder) const {
    rpc::CallOptions options{.deadline = deadline};
    if (grants_ != nullptr) options.metadata = grants_->OfHolder(holder);
    return options;
  }

  const std::unique_ptr<dl::BundleService::Stub> bundles_;
  const std::unique_ptr<dl::DataLoadService::Stub> loads_;
  const std::unique_ptr<dl::OutputService::Stub> outputs_;
  Strand* const strand_;
  const GrantBook* const grants_;
};

}  // namespace

std::unique_ptr<DataAccess> MakeLoaderDataAccess(const std::shared_ptr<grpc::Channel>& channel,
                                                 Strand* strand, const GrantBook* grants) {
  return std::make_unique<LoaderDataAccess>(channel, strand, grants);
}

}  // namespace capstan::node_agent
