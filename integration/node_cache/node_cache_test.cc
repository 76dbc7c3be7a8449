// Nodes with caches of their own and a data_loader, over a real connection.
#include "services/node_agent/adapters/node_cache.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "gtest/gtest.h"
#include "libs/auth/spiffe_id.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/digest/sha256.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/random/random.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "proto/capstan/dataloader/v1/content.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/data_loader/server.h"
#include "services/node_agent/adapters/cached_data_access.h"
#include "services/node_agent/adapters/loader_grpc_content.h"
#include "services/node_agent/ports/data_access.h"
#include "services/node_agent/ports/loader_content.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
namespace pb = ::capstan::dataloader::v1;

constexpr char kUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";
constexpr char kOutput[] = "projects/p/jobs/j/output";
constexpr size_t kBig = 24 << 20;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class NodeCacheIntegrationTest : public ::testing::Test {
 protected:
  // The agent's side of one Node. Every one is the same caller unless CallAs says otherwise.
  struct Node {
    std::unique_ptr<ThreadStrand> strand;
    std::unique_ptr<node_agent::LoaderContent> content;
    std::unique_ptr<node_agent::NodeCache> cache;
    std::unique_ptr<node_agent::DataAccess> data;
  };

  NodeCacheIntegrationTest() : logger_("test", &clock_, &sink_) {
    fs::create_directories(folder_.path() + "/bucket/sub");
    std::ofstream(folder_.path() + "/bucket/a") << "abc";
    std::ofstream(folder_.path() + "/bucket/sub/empty").flush();
    std::string big(kBig, '\0');
    Random random(3);
    for (size_t i = 0; i < big.size(); i += 997) big[i] = static_cast<char>(random.Next());
    std::ofstream(folder_.path() + "/bucket/big") << big;
    big_digest_ = Sha256::Of(big);
    StartLoader();
  }
  ~NodeCacheIntegrationTest() override {
    StopNode(node_);
    StopLoader();
  }

  void StartLoader() {
    strand_ = std::make_unique<ThreadStrand>("data_loader", &clock_);
    store_ = std::make_unique<store::MemoryStore>(strand_.get(), disk_);
    data_loader::ServerConfig config;
    config.address = absl::StrCat("127.0.0.1:", port_);
    config.site_directory = folder_.path() + "/site";
    config.allowed_source_roots = {folder_.path() + "/bucket"};
    config.page_token_key = "0123456789abcdef";
    data_loader::ServerDeps deps;
    deps.clock = &clock_;
    deps.strand = strand_.get();
    deps.store = store_.get();
    deps.access = &access_;
    deps.logger = &logger_;
    deps.credentials = grpc::InsecureServerCredentials();
    deps.seed = ++seed_;
    auto server = data_loader::Server::Create(config, deps);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = server_->port();
    channel_ = Channel();
  }
  void StopLoader() {
    server_.reset();
    strand_->Stop();
    store_.reset();
    strand_.reset();
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                     grpc::InsecureChannelCredentials(), arguments);
  }

  void StartNode(Node& node, const std::string& name = "n1") {
    node.strand = std::make_unique<ThreadStrand>(name, &clock_);
    node.content = node_agent::MakeLoaderGrpcContent(Channel(), nullptr, nullptr);
    node_agent::NodeCacheOptions options;
    options.folder = absl::StrCat(folder_.path(), "/", name);
    options.patience = absl::Milliseconds(5);
    options.fetch.part_bytes = 1 << 20;
    options.fetch.first_pause = absl::Milliseconds(20);
    options.fetch.last_pause = absl::Milliseconds(100);
    options.fetch.attempts = 100;
    auto cache = node_agent::NodeCache::Open(options, node.content.get(), node.strand.get(),
                                             Random(++seed_), &logger_, nullptr);
    ASSERT_TRUE(cache.ok()) << cache.status();
    node.cache = *std::move(cache);
    node.data =
        node_agent::MakeCachedDataAccess(Channel(), node.strand.get(), node.cache.get(), nullptr);
  }
  static void StopNode(Node& node) {
    if (node.strand == nullptr) return;
    absl::Notification gone;
    node.strand->Post([&] {
      node.data.reset();
      node.cache.reset();
      node.content.reset();
      gone.Notify();
    });
    gone.WaitForNotification();
    node.strand.reset();
  }

  // Calls on the Node's strand and waits for the answer.
  template <typename T, typename Call>
  static T AskOnce(Node& node, Call call) {
    auto result = std::make_shared<absl::optional<T>>();
    auto done = std::make_shared<absl::Notification>();
    node.strand->Post([call, result, done] {
      call([result, done](T answer) {
        *result = std::move(answer);
        done->Notify();
      });
    });
    done->WaitForNotification();
    return **std::move(result);
  }
  // Asks until the answer is not that it takes a while.
  template <typename T, typename Call>
  static T Ask(Node& node, Call call) {
    T answer = AskOnce<T>(node, call);
    while (absl::IsUnavailable(answer.status())) answer = AskOnce<T>(node, call);
    return answer;
  }
  absl::StatusOr<std::string> PinOnce(Node& node, const std::string& version) {
    return AskOnce<absl::StatusOr<std::string>>(node, [&node, version](auto done) {
      node.data->PinVersion(version, absl::StrCat(kUid, "/1"), std::move(done));
    });
  }
  absl::StatusOr<std::string> Pin(Node& node, const std::string& version,
                                  const std::string& holder = absl::StrCat(kUid, "/1")) {
    return Ask<absl::StatusOr<std::string>>(node, [&node, version, holder](auto done) {
      node.data->PinVersion(version, holder, std::move(done));
    });
  }

  // Loads the Dataset to the Site and gives its version.
  std::string LoadVersion() {
    const auto datasets = pb::DatasetService::NewStub(channel_);
    const auto loads = pb::DataLoadService::NewStub(channel_);
    pb::CreateDatasetRequest create;
    create.set_parent("projects/p");
    create.set_dataset_id("d");
    create.mutable_dataset()->set_source_uri("file://" + folder_.path() + "/bucket/");
    {
      grpc::ClientContext context;
      pb::Dataset dataset;
      EXPECT_TRUE(datasets->CreateDataset(&context, create, &dataset).ok());
    }
    pb::EnsureDataLoadRequest ensure;
    ensure.set_dataset("projects/p/datasets/d");
    pb::DataLoad load;
    {
      grpc::ClientContext context;
      EXPECT_TRUE(loads->EnsureDataLoad(&context, ensure, &load).ok());
    }
    grpc::ClientContext context;
    pb::GetDataLoadRequest watch;
    watch.set_name(load.name());
    const auto reader = loads->WatchDataLoad(&context, watch);
    while (reader->Read(&load)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(load.state(), pb::DataLoad::STATE_SUCCEEDED) << load.message();
    return load.version();
  }

  void CallAsNode(const std::string& name) {
    access_.CallAs(auth::SpiffeId::Node("test.capstan.dev", "local", name));
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  auth::FakeAccess access_;
  std::shared_ptr<store::MemoryImage> disk_ = std::make_shared<store::MemoryImage>();
  std::string big_digest_;
  int port_ = 0;
  uint64_t seed_ = 0;
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<data_loader::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  Node node_;
};

TEST_F(NodeCacheIntegrationTest, AVersionComesWholeAndIsTheNodesOwn) {
  const std::string version = LoadVersion();
  CallAsNode("n1");
  StartNode(node_);
  const absl::StatusOr<std::string> directory = Pin(node_, version);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(directory->rfind(folder_.path() + "/n1/versions/", 0), 0u) << *directory;
  EXPECT_EQ(Read(*directory + "/a"), "abc");
  EXPECT_EQ(Read(*directory + "/sub/empty"), "");
  EXPECT_EQ(Sha256::Of(Read(*directory + "/big")), big_digest_);
  // Restarted without a data_loader's help but for the pin.
  StopNode(node_);
  StartNode(node_);
  EXPECT_EQ(*Pin(node_, version), *directory);
  const absl::Status released = AskOnce<absl::Status>(node_, [this](auto done) {
    node_.data->ReleasePins(absl::StrCat(kUid, "/1"), std::move(done));
  });
  EXPECT_TRUE(released.ok()) << released;
}

TEST_F(NodeCacheIntegrationTest, RestartsOfBothSidesInMidFetchLoseNothing) {
  const std::string version = LoadVersion();
  CallAsNode("n1");
  StartNode(node_);
  // One answer, whichever: then one side goes, in turn, and comes again.
  int on_the_way = 0;
  for (int i = 0; i < 6; ++i) {
    const absl::StatusOr<std::string> told = PinOnce(node_, version);
    on_the_way += status::Reason(told.status()) == "DATA_ON_ITS_WAY" ? 1 : 0;
    if (i % 2 == 0) {
      StopLoader();
      StartLoader();
    } else {
      StopNode(node_);
      StartNode(node_);
    }
  }
  EXPECT_GT(on_the_way, 0) << "it all came before anything went";
  const absl::StatusOr<std::string> directory = Pin(node_, version);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(Sha256::Of(Read(*directory + "/big")), big_digest_);
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/n1/staging"));
}

TEST_F(NodeCacheIntegrationTest, OnlyTheNodeThatPinnedReadsAndReleases) {
  const std::string version = LoadVersion();
  CallAsNode("n1");
  StartNode(node_);
  ASSERT_TRUE(Pin(node_, version).ok());
  const auto contents = pb::ContentService::NewStub(channel_);
  const auto manifest = [&] {
    pb::ReadManifestRequest request;
    request.mutable_content()->set_resource(version);
    request.mutable_content()->set_manifest_digest(
        "sha256:" + fs::path(*Pin(node_, version)).filename().string());
    request.mutable_content()->set_holder(absl::StrCat(kUid, "/1"));
    return request;
  }();
  const auto read = [&] {
    grpc::ClientContext context;
    const auto reader = contents->ReadManifest(&context, manifest);
    pb::Manifest piece;
    int files = 0;
    while (reader->Read(&piece)) files += piece.files_size();
    const grpc::Status status = reader->Finish();
    return status.ok() ? files : -static_cast<int>(status.error_code());
  };
  EXPECT_EQ(read(), 3);
  CallAsNode("n2");
  EXPECT_EQ(read(), -static_cast<int>(grpc::StatusCode::NOT_FOUND));
  const auto release = [&] {
    pb::ReleasePinsRequest request;
    request.set_holder(absl::StrCat(kUid, "/1"));
    pb::ReleasePinsResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(
        pb::DataLoadService::NewStub(channel_)->ReleasePins(&context, request, &response).ok());
  };
  release();
  CallAsNode("n1");
  EXPECT_EQ(read(), 3) << "another Node has released this one's pins";
  release();
  EXPECT_EQ(read(), -static_cast<int>(grpc::StatusCode::NOT_FOUND));
}

TEST_F(NodeCacheIntegrationTest, CheckpointsGoUpAndComeDownFencedByGeneration) {
  CallAsNode("n1");
  StartNode(node_);
  Node other;
  StartNode(other, "n2");
  const auto open = [&](Node& node, int64_t generation) {
    return Ask<absl::StatusOr<node_agent::OpenedOutput>>(node, [&node, generation](auto done) {
      node.data->OpenOutput(kOutput, kUid, generation, std::move(done));
    });
  };
  const auto commit = [&](Node& node, int64_t generation, int64_t step,
                          const std::string& directory) {
    node_agent::OutputCommit commit{kOutput, kUid, generation, 0, true, step, directory};
    return Ask<absl::StatusOr<std::string>>(
        node, [&node, commit](auto done) { node.data->CommitOutput(commit, std::move(done)); });
  };
  const auto first = open(node_, 1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->resume_directory, "");
  const std::string written = first->staging_root + "/w-0";
  fs::create_directories(written + "/shards");
  std::ofstream(written + "/shards/0") << std::string(3 << 20, 'w');
  std::ofstream(written + "/step") << "10";
  const auto digest = commit(node_, 1, 10, written);
  ASSERT_TRUE(digest.ok()) << digest.status();
  // Said again it is the same commit, at once.
  EXPECT_EQ(*commit(node_, 1, 10, written), *digest);
  // The next generation runs elsewhere and begins with it.
  const auto second = open(other, 2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->resume_directory.rfind(folder_.path() + "/n2/outputs/", 0), 0u);
  EXPECT_EQ(Read(second->resume_directory + "/step"), "10");
  EXPECT_EQ(Read(second->resume_directory + "/shards/0"), std::string(3 << 20, 'w'));
  // A late writer of the older generation changes nothing and leaves nothing.
  EXPECT_EQ(status::Reason(commit(node_, 1, 20, written).status()), "GENERATION_SUPERSEDED");
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/site/staging/outputs"));
  EXPECT_EQ(status::Reason(open(node_, 1).status()), "GENERATION_SUPERSEDED");
  StopNode(other);
}

TEST_F(NodeCacheIntegrationTest, AnUploadThatChangesOrEndsEarlyIsNotCommitted) {
  CallAsNode("n1");
  StartNode(node_);
  ASSERT_TRUE(Ask<absl::StatusOr<node_agent::OpenedOutput>>(node_, [this](auto done) {
                node_.data->OpenOutput(kOutput, kUid, 1, std::move(done));
              }).ok());
  const auto contents = pb::ContentService::NewStub(channel_);
  const auto upload = [&](const std::vector<std::string>& chunks, const std::string& claimed) {
    grpc::ClientContext context;
    pb::CommitOutputResponse response;
    const auto writer = contents->UploadOutput(&context, &response);
    pb::UploadOutputRequest message;
    message.mutable_header()->set_name(kOutput);
    message.mutable_header()->set_job_uid(kUid);
    message.mutable_header()->set_generation(1);
    message.mutable_header()->set_checkpoint_step(1);
    writer->Write(message);
    pb::Manifest::File& file = *message.mutable_manifest()->add_files();
    file.set_path("w");
    file.set_size_bytes(static_cast<int64_t>(claimed.size()));
    file.set_sha256(Sha256::Of(claimed));
    writer->Write(message);
    for (const std::string& chunk : chunks) {
      message.set_chunk(chunk);
      writer->Write(message);
    }
    writer->WritesDone();
    return rpc::FromGrpcStatus(writer->Finish());
  };
  EXPECT_EQ(status::Reason(upload({"ab"}, "abc")), "OUTPUT_MISMATCH");
  EXPECT_EQ(status::Reason(upload({"abd"}, "abc")), "OUTPUT_MISMATCH");
  EXPECT_EQ(status::Reason(upload({"abc", "d"}, "abc")), "OUTPUT_MISMATCH");
  EXPECT_TRUE(upload({"a", "bc"}, "abc").ok());
}

}  // namespace
}  // namespace capstan
