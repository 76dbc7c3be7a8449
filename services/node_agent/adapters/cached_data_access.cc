#include "services/node_agent/adapters/cached_data_access.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/call.h"
#include "libs/status/error.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/node_agent/adapters/commit_request.h"

namespace capstan::node_agent {
namespace {

namespace dl = capstan::dataloader::v1;
using BundleAsync = dl::BundleService::StubInterface::async_interface;
using LoadAsync = dl::DataLoadService::StubInterface::async_interface;
using OutputAsync = dl::OutputService::StubInterface::async_interface;

constexpr absl::Duration kDeadline = absl::Seconds(20);

class CachedDataAccess final : public DataAccess {
 public:
  CachedDataAccess(const std::shared_ptr<grpc::Channel>& channel, Strand* strand, NodeCache* cache,
                   const GrantBook* grants)
      : bundles_(dl::BundleService::NewStub(channel)),
        loads_(dl::DataLoadService::NewStub(channel)),
        outputs_(dl::OutputService::NewStub(channel)),
        strand_(strand),
        cache_(cache),
        grants_(grants) {}

  void OpenOutput(const std::string& output, const std::string& job_uid, int64_t generation,
                  Callback<OpenedOutput> done) override {
    dl::OpenOutputRequest request;
    request.set_name(output);
    request.set_job_uid(job_uid);
    request.set_generation(generation);
    const std::string holder = absl::StrCat(job_uid, "/", generation);
    rpc::CallUnary(outputs_.get(), &OutputAsync::OpenOutput, std::move(request), Options(holder),
                   strand_,
                   [this, alive = std::weak_ptr<char>(alive_), output, holder,
                    done = std::move(done)](absl::StatusOr<dl::OpenOutputResponse> answer) mutable {
                     if (alive.expired()) return;
                     if (!answer.ok()) return done(answer.status());
                     BringCheckpoint(output, holder, *answer, std::move(done));
                   });
  }

  void PinBundle(const std::string& bundle, const std::string& holder,
                 Callback<std::string> done) override {
    dl::PinBundleRequest request;
    request.set_name(bundle);
    request.set_holder(holder);
    rpc::CallUnary(bundles_.get(), &BundleAsync::PinBundle, std::move(request), Options(holder),
                   strand_, BringPinned("bundles", bundle, holder, std::move(done)));
  }

  void PinVersion(const std::string& version, const std::string& holder,
                  Callback<std::string> done) override {
    dl::PinVersionRequest request;
    request.set_version(version);
    request.set_holder(holder);
    rpc::CallUnary(loads_.get(), &LoadAsync::PinVersion, std::move(request), Options(holder),
                   strand_, BringPinned("versions", version, holder, std::move(done)));
  }

  void CommitOutput(const OutputCommit& commit, Callback<std::string> done) override {
    cache_->SendOutput(CommitRequestOf(commit), commit.directory, std::move(done));
  }

  void ReleasePins(const std::string& holder, DoneCallback done) override {
    dl::ReleasePinsRequest request;
    request.set_holder(holder);
    rpc::CallUnary(
        loads_.get(), &LoadAsync::ReleasePins, std::move(request), {.deadline = kDeadline}, strand_,
        [this, alive = std::weak_ptr<char>(alive_), holder,
         done = std::move(done)](absl::StatusOr<dl::ReleasePinsResponse> answer) mutable {
          if (alive.expired()) return;
          if (!answer.ok()) return done(answer.status());
          cache_->Release(holder, std::move(done));
        });
  }

 private:
  rpc::CallOptions Options(const std::string& holder) const {
    rpc::CallOptions options{.deadline = kDeadline};
    if (grants_ != nullptr) options.metadata = grants_->OfHolder(holder);
    return options;
  }

  Callback<dl::PinVersionResponse> BringPinned(const std::string& collection,
                                               const std::string& resource,
                                               const std::string& holder,
                                               Callback<std::string> done) {
    return [this, alive = std::weak_ptr<char>(alive_), collection, resource, holder,
            done = std::move(done)](absl::StatusOr<dl::PinVersionResponse> pinned) mutable {
      if (alive.expired()) return;
      if (!pinned.ok()) return done(pinned.status());
      WantedContent wanted;
      wanted.collection = collection;
      wanted.content.set_resource(resource);
      wanted.content.set_manifest_digest(pinned->manifest_digest());
      wanted.content.set_holder(holder);
      wanted.total_bytes = pinned->total_bytes();
      cache_->Bring(wanted, std::move(done));
    };
  }

  void BringCheckpoint(const std::string& output, const std::string& holder,
                       const dl::OpenOutputResponse& opened, Callback<OpenedOutput> done) {
    if (!opened.has_resume_from()) return OpenOutgoing(holder, "", std::move(done));
    WantedContent wanted;
    wanted.collection = "outputs";
    wanted.content.set_resource(output);
    wanted.content.set_manifest_digest(opened.resume_from().manifest_digest());
    wanted.content.set_holder(holder);
    wanted.total_bytes = opened.resume_from().total_bytes();
    cache_->Bring(wanted, [this, alive = std::weak_ptr<char>(alive_), holder,
                           done = std::move(done)](absl::StatusOr<std::string> directory) mutable {
      if (alive.expired()) return;
      // A newer checkpoint may have taken its place: the next attempt is told of that one.
      if (absl::IsNotFound(directory.status())) {
        return done(status::Error(absl::StatusCode::kUnavailable, "CHECKPOINT_GONE",
                                  "the checkpoint to resume from is there no more"));
      }
      if (!directory.ok()) return done(directory.status());
      OpenOutgoing(holder, *std::move(directory), std::move(done));
    });
  }

  void OpenOutgoing(const std::string& holder, std::string resume, Callback<OpenedOutput> done) {
    cache_->OpenOutgoing(holder, [resume = std::move(resume), done = std::move(done)](
                                     absl::StatusOr<std::string> staging) mutable {
      if (!staging.ok()) return done(staging.status());
      done(OpenedOutput{std::move(resume), *std::move(staging)});
    });
  }

  const std::unique_ptr<dl::BundleService::Stub> bundles_;
  const std::unique_ptr<dl::DataLoadService::Stub> loads_;
  const std::unique_ptr<dl::OutputService::Stub> outputs_;
  Strand* const strand_;
  NodeCache* const cache_;
  const GrantBook* const grants_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace

std::unique_ptr<DataAccess> MakeCachedDataAccess(const std::shared_ptr<grpc::Channel>& channel,
                                                 Strand* strand, NodeCache* cache,
                                                 const GrantBook* grants) {
  return std::make_unique<CachedDataAccess>(channel, strand, cache, grants);
}

}  // namespace capstan::node_agent
