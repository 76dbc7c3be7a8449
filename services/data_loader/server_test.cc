#include "services/data_loader/server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/server_credentials.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/digest/sha256.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "proto/capstan/dataloader/v1/content.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/core/records.pb.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";
constexpr char kDataset[] = "projects/p/datasets/d";

// The whole service on a real directory; the store is in memory and outlives a restart.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : logger_("data_loader", &clock_, &sink_) {
    std::string pattern = absl::StrCat(::testing::TempDir(), "server.XXXXXX");
    base_ = ::mkdtemp(pattern.data());
    EXPECT_EQ(::mkdir((base_ + "/bucket").c_str(), 0755), 0);
    Start();
  }
  ~ServerTest() override { Stop(); }

  void Start() {
    strand_ = std::make_unique<ThreadStrand>("data_loader", &clock_);
    store_ = std::make_unique<store::MemoryStore>(strand_.get(), disk_);
    ServerConfig config;
    config.site_directory = base_ + "/site";
    config.allowed_source_roots = {base_ + "/bucket"};
    config.page_token_key = "0123456789abcdef";
    config.site_limit_bytes = site_limit_;
    ServerDeps deps;
    deps.clock = &clock_;
    deps.strand = strand_.get();
    deps.store = store_.get();
    deps.access = &access_;
    deps.logger = &logger_;
    deps.credentials = grpc::InsecureServerCredentials();
    deps.seed = ++seed_;
    auto server = Server::Create(config, deps);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel = server_->InProcessChannelForTest();
    datasets_ = pb::DatasetService::NewStub(channel);
    loads_ = pb::DataLoadService::NewStub(channel);
    bundles_ = pb::BundleService::NewStub(channel);
    outputs_ = pb::OutputService::NewStub(channel);
  }

  void Stop() {
    server_.reset();
    strand_->Stop();
    store_.reset();
    strand_.reset();
  }

  void Write(const std::string& path, const std::string& content) {
    UniqueFd fd(::open(absl::StrCat(base_, "/", path).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
    ASSERT_TRUE(WriteAll(fd.get(), content, path).ok());
  }
  static std::string Read(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY));
    return *ReadAll(fd.get(), 1 << 20, path);
  }

  // Calls and gives the answer or the status with its details.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::element_type::*method)(grpc::ClientContext*,
                                                                           const Request&,
                                                                           Response*),
                                const Request& request) {
    grpc::ClientContext context;
    Response response;
    const absl::Status status =
        rpc::FromGrpcStatus((stub.get()->*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  absl::StatusOr<pb::Dataset> CreateDataset(const std::vector<std::string>& objects = {},
                                            const std::string& id = "d") {
    pb::CreateDatasetRequest request;
    request.set_parent("projects/p");
    request.set_dataset_id(id);
    request.mutable_dataset()->set_source_uri("file://" + base_ + "/bucket/");
    for (const std::string& object : objects) request.mutable_dataset()->add_objects(object);
    return Call(datasets_, &pb::DatasetService::Stub::CreateDataset, request);
  }

  absl::StatusOr<pb::DataLoad> LoadToEnd(const std::string& dataset = kDataset) {
    pb::EnsureDataLoadRequest request;
    request.set_dataset(dataset);
    absl::StatusOr<pb::DataLoad> load =
        Call(loads_, &pb::DataLoadService::Stub::EnsureDataLoad, request);
    if (!load.ok()) return load;
    grpc::ClientContext context;
    pb::GetDataLoadRequest watch;
    watch.set_name(load->name());
    auto reader = loads_->WatchDataLoad(&context, watch);
    while (reader->Read(&*load)) {
    }
    const absl::Status ended = rpc::FromGrpcStatus(reader->Finish());
    if (!ended.ok()) return ended;
    return load;
  }

  absl::StatusOr<pb::Bundle> Upload(const pb::Manifest& manifest,
                                    const std::vector<std::string>& chunks) {
    grpc::ClientContext context;
    pb::Bundle bundle;
    auto writer = bundles_->UploadBundle(&context, &bundle);
    pb::UploadBundleRequest message;
    message.mutable_header()->set_parent("projects/p");
    *message.mutable_header()->mutable_manifest() = manifest;
    writer->Write(message);
    for (const std::string& chunk : chunks) {
      message.set_chunk(chunk);
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    const absl::Status status = rpc::FromGrpcStatus(writer->Finish());
    if (!status.ok()) return status;
    return bundle;
  }

  SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  auth::FakeAccess access_;
  std::shared_ptr<store::MemoryImage> disk_ = std::make_shared<store::MemoryImage>();
  std::string base_;
  int64_t site_limit_ = 0;
  uint64_t seed_ = 0;
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<pb::DatasetService::Stub> datasets_;
  std::unique_ptr<pb::DataLoadService::Stub> loads_;
  std::unique_ptr<pb::BundleService::Stub> bundles_;
  std::unique_ptr<pb::OutputService::Stub> outputs_;
};

TEST_F(ServerTest, LoadsOncePinsAndKeepsOverARestart) {
  Write("bucket/a", "abc");
  ASSERT_TRUE(CreateDataset().ok());
  const absl::StatusOr<pb::DataLoad> load = LoadToEnd();
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->state(), pb::DataLoad::STATE_SUCCEEDED) << load->message();
  EXPECT_EQ(load->loaded_bytes(), 3);
  Stop();
  Start();
  EXPECT_EQ(LoadToEnd()->name(), load->name());
  pb::PinVersionRequest pin;
  pin.set_version(load->version());
  pin.set_holder(absl::StrCat(kUid, "/1"));
  const auto pinned = Call(loads_, &pb::DataLoadService::Stub::PinVersion, pin);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(Read(pinned->directory() + "/a"), "abc");
  pb::ListDataLoadsRequest list;
  list.set_parent("projects/p");
  EXPECT_EQ(Call(loads_, &pb::DataLoadService::Stub::ListDataLoads, list)->data_loads_size(), 1);
}

TEST_F(ServerTest, APinThatComesAfterTheReleaseIsRefusedAlsoByTheNextProcess) {
  Write("bucket/a", "abc");
  ASSERT_TRUE(CreateDataset().ok());
  pb::PinVersionRequest pin;
  pin.set_version(LoadToEnd()->version());
  pin.set_holder(absl::StrCat(kUid, "/1"));
  ASSERT_TRUE(Call(loads_, &pb::DataLoadService::Stub::PinVersion, pin).ok());
  pb::ReleasePinsRequest release;
  release.set_holder(pin.holder());
  for (int restarts = 0; restarts < 2; ++restarts) {
    ASSERT_TRUE(Call(loads_, &pb::DataLoadService::Stub::ReleasePins, release).ok());
    const absl::Status late = Call(loads_, &pb::DataLoadService::Stub::PinVersion, pin).status();
    EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition) << late;
    EXPECT_EQ(status::Reason(late), "HOLDER_RELEASED") << late;
    Stop();
    Start();
  }
  pin.set_holder(absl::StrCat(kUid, "/2"));
  EXPECT_TRUE(Call(loads_, &pb::DataLoadService::Stub::PinVersion, pin).ok());
}

TEST_F(ServerTest, AMissingObjectFailsTheLoadByName) {
  Write("bucket/a", "abc");
  ASSERT_TRUE(CreateDataset({"a", "gone.npz"}).ok());
  const absl::StatusOr<pb::DataLoad> load = LoadToEnd();
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->state(), pb::DataLoad::STATE_FAILED);
  EXPECT_EQ(load->reason(), "OBJECT_NOT_FOUND");
  EXPECT_TRUE(absl::StrContains(load->message(), "gone.npz")) << load->message();
}

TEST_F(ServerTest, VersionsLeaveForOthersAndComeBackWhenTheyArePinned) {
  Stop();
  site_limit_ = 100;
  Start();
  Write("bucket/a", std::string(60, 'a'));
  Write("bucket/b", std::string(60, 'b'));
  Write("bucket/c", std::string(101, 'c'));
  ASSERT_TRUE(CreateDataset({"a"}, "first").ok());
  ASSERT_TRUE(CreateDataset({"b"}, "second").ok());
  ASSERT_TRUE(CreateDataset({"c"}, "third").ok());
  const std::string first = LoadToEnd("projects/p/datasets/first")->version();
  const std::string second = LoadToEnd("projects/p/datasets/second")->version();
  ASSERT_FALSE(second.empty());
  const auto pin = [this](const std::string& version) {
    pb::PinVersionRequest request;
    request.set_version(version);
    request.set_holder(absl::StrCat(kUid, "/1"));
    return Call(loads_, &pb::DataLoadService::Stub::PinVersion, request);
  };
  EXPECT_EQ(status::Reason(pin(first).status()), "VERSION_ON_ITS_WAY");
  auto pinned = pin(first);
  while (status::Reason(pinned.status()) == "VERSION_ON_ITS_WAY") pinned = pin(first);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(Read(pinned->directory() + "/a"), std::string(60, 'a'));
  // Now it is held: the other has no room, and waits for it, saying so.
  while (status::Reason(pin(second).status()) == "VERSION_ON_ITS_WAY") {
  }
  const absl::Status full = pin(second).status();
  EXPECT_TRUE(absl::IsUnavailable(full)) << full;
  EXPECT_EQ(status::Reason(full), "VERSION_WAITS_FOR_ROOM") << full;
  EXPECT_TRUE(absl::StrContains(full.message(), kUid)) << full;
  EXPECT_EQ(LoadToEnd("projects/p/datasets/third")->reason(), "CONTENT_TOO_LARGE");
}

TEST_F(ServerTest, AHolderOnMoreNodesThanATransactionHasOperationsIsReleased) {
  const std::string holder = absl::StrCat(kUid, "/1");
  const std::string prefix = absl::StrCat(kKeyPrefix, "pin/");
  constexpr int kNodes = static_cast<int>(store::kMaxTxnOps) + 100;
  absl::BlockingCounter stored(kNodes);
  for (int i = 0; i < kNodes; ++i) {
    PinRecord pin;
    pin.set_schema_version(kSchemaVersion);
    pin.set_node(absl::StrCat("local/n", i));
    pin.set_resource("projects/p/datasets/d/versions/0123456789abcdef");
    store::TxnRequest put;
    put.then.push_back(
        store::Put{absl::StrCat(prefix, holder, "|", pin.node(), "|", pin.resource()),
                   pin.SerializeAsString()});
    store_->Txn(std::move(put), [&stored](const absl::StatusOr<store::TxnResult>& done) {
      EXPECT_TRUE(done.ok()) << done.status();
      stored.DecrementCount();
    });
  }
  stored.Wait();
  Stop();
  Start();
  pb::ReleasePinsRequest release;
  release.set_holder(holder);
  const auto released = Call(loads_, &pb::DataLoadService::Stub::ReleasePins, release);
  EXPECT_TRUE(released.ok()) << released.status();
  absl::Notification read;
  store_->Range({.key = prefix, .end = store::PrefixEnd(prefix)},
                [&](const absl::StatusOr<store::RangeResult>& pins) {
                  EXPECT_TRUE(pins.ok() && pins->kvs.empty());
                  read.Notify();
                });
  read.WaitForNotification();
  EXPECT_TRUE(CreateDataset().ok());
}

TEST_F(ServerTest, ReceivesABundleOnceAndRefusesWrongContent) {
  pb::Manifest manifest;
  pb::Manifest::File& file = *manifest.add_files();
  file.set_path("train.py");
  file.set_size_bytes(6);
  file.set_sha256(Sha256::Of("import"));
  const absl::StatusOr<pb::Bundle> bundle = Upload(manifest, {"imp", "ort"});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(Upload(manifest, {"import"})->name(), bundle->name());
  EXPECT_EQ(status::Reason(Upload(manifest, {"export"}).status()), "BUNDLE_MISMATCH");
  EXPECT_EQ(status::Reason(Upload(manifest, {"imp"}).status()), "BUNDLE_MISMATCH");
  manifest.mutable_files(0)->set_path("../train.py");
  EXPECT_EQ(status::GetFieldViolations(Upload(manifest, {"import"}).status()).at(0).field,
            "header.manifest");
  pb::PinBundleRequest pin;
  pin.set_name(bundle->name());
  pin.set_holder(absl::StrCat(kUid, "/1"));
  EXPECT_EQ(
      Read(Call(bundles_, &pb::BundleService::Stub::PinBundle, pin)->directory() + "/train.py"),
      "import");
}

TEST_F(ServerTest, AnAbandonedUploadLeavesNothing) {
  pb::UploadBundleRequest message;
  message.mutable_header()->set_parent("projects/p");
  pb::Manifest::File& file = *message.mutable_header()->mutable_manifest()->add_files();
  file.set_path("train.py");
  file.set_size_bytes(6);
  file.set_sha256(Sha256::Of("import"));
  {
    grpc::ClientContext context;
    pb::Bundle bundle;
    auto writer = bundles_->UploadBundle(&context, &bundle);
    writer->Write(message);
    message.set_chunk("imp");
    writer->Write(message);
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  // A server that has drained has no upload left.
  Stop();
  EXPECT_TRUE(std::filesystem::is_empty(base_ + "/site/staging/bundles"));
  EXPECT_TRUE(std::filesystem::is_empty(base_ + "/site/bundles"));
  Start();
}

TEST_F(ServerTest, CommitsCheckpointsOfTheOpenGenerationOnly) {
  pb::OpenOutputRequest open;
  open.set_name("projects/p/jobs/j/output");
  open.set_job_uid(kUid);
  open.set_generation(1);
  auto opened = Call(outputs_, &pb::OutputService::Stub::OpenOutput, open);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE(opened->has_resume_from());
  ASSERT_EQ(::mkdir((opened->staging_root() + "/0").c_str(), 0755), 0);
  Write(opened->staging_root().substr(base_.size() + 1) + "/0/weights", "w1");
  pb::CommitOutputRequest commit;
  commit.set_name(open.name());
  commit.set_job_uid(kUid);
  commit.set_generation(1);
  commit.set_checkpoint_step(10);
  commit.set_staging_directory(opened->staging_root() + "/0");
  const auto committed = Call(outputs_, &pb::OutputService::Stub::CommitOutput, commit);
  ASSERT_TRUE(committed.ok()) << committed.status();
  Stop();
  Start();
  // Said again after a restart, the commit is the same one.
  EXPECT_EQ(Call(outputs_, &pb::OutputService::Stub::CommitOutput, commit)->directory(),
            committed->directory());
  EXPECT_EQ(Read(committed->directory() + "/weights"), "w1");
  open.set_generation(2);
  opened = Call(outputs_, &pb::OutputService::Stub::OpenOutput, open);
  EXPECT_EQ(opened->resume_from().step(), 10);
  commit.set_checkpoint_step(20);
  EXPECT_EQ(status::Reason(Call(outputs_, &pb::OutputService::Stub::CommitOutput, commit).status()),
            "GENERATION_SUPERSEDED");
}

// Whoever asks again while the first call's record is on its way must wait for it, too: what then
// fails was never there.
TEST_F(ServerTest, TwinOfACommitThatFailsIsNotAcknowledged) {
  pb::OpenOutputRequest open;
  open.set_name("projects/p/jobs/j/output");
  open.set_job_uid(kUid);
  open.set_generation(1);
  const auto opened = Call(outputs_, &pb::OutputService::Stub::OpenOutput, open);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(::mkdir((opened->staging_root() + "/0").c_str(), 0755), 0);
  Write(opened->staging_root().substr(base_.size() + 1) + "/0/weights", "w1");
  pb::CommitOutputRequest commit;
  commit.set_name(open.name());
  commit.set_job_uid(kUid);
  commit.set_generation(1);
  commit.set_checkpoint_step(10);
  commit.set_staging_directory(opened->staging_root() + "/0");
  strand_->Post([this] {
    store_->SetCommitDelay(absl::Milliseconds(300));
    store_->FailNextTxn(absl::UnavailableError("disk is away"));
  });
  std::atomic<bool> first_done = false;
  std::thread first([&] {
    Call(outputs_, &pb::OutputService::Stub::CommitOutput, commit).status().IgnoreError();
    first_done = true;
  });
  pb::UploadOutputRequest header;
  *header.mutable_header() = commit;
  header.mutable_header()->clear_staging_directory();
  const auto contents = pb::ContentService::NewStub(server_->InProcessChannelForTest());
  // Those that copy too do not end in time; those that come once the first is decided would.
  const auto deadline = [] {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(30, GPR_TIMESPAN));
  };
  while (!first_done) {
    pb::CommitOutputResponse response;
    grpc::ClientContext twin;
    twin.set_deadline(deadline());
    EXPECT_TRUE(!outputs_->CommitOutput(&twin, commit, &response).ok() || first_done);
    grpc::ClientContext context;
    context.set_deadline(deadline());
    const auto upload = contents->UploadOutput(&context, &response);
    upload->Write(header);
    upload->WritesDone();
    EXPECT_TRUE(!upload->Finish().ok() || first_done);
  }
  first.join();
}

TEST_F(ServerTest, FailedCommitIsNotAcknowledgedAndTheStoreIsReadAgain) {
  Write("bucket/a", "abc");
  strand_->Post([this] { store_->FailNextTxn(absl::UnavailableError("disk is away")); });
  EXPECT_FALSE(CreateDataset().ok());
  // Until the store has been read again calls are refused; then the Dataset can be made.
  absl::StatusOr<pb::Dataset> made = CreateDataset();
  while (status::Reason(made.status()) == "NOT_READY") made = CreateDataset();
  EXPECT_TRUE(made.ok()) << made.status();
}

TEST_F(ServerTest, RefusedCallersLearnNothing) {
  access_.Refuse(status::PermissionDenied("datasets.create", "projects/p"));
  EXPECT_EQ(CreateDataset().status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Upload(pb::Manifest(), {}).status().code(), absl::StatusCode::kPermissionDenied);
  grpc::ClientContext context;
  pb::Bundle bundle;
  auto empty = bundles_->UploadBundle(&context, &bundle);
  empty->WritesDone();
  EXPECT_EQ(empty->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace capstan::data_loader
