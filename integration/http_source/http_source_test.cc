// A data_loader loads from a real web server over TLS.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/server_credentials.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/digest/sha256.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/data_loader/server.h"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
namespace pb = ::capstan::dataloader::v1;

class HttpSourceIntegrationTest : public ::testing::Test {
 protected:
  HttpSourceIntegrationTest() : logger_("data_loader", &clock_, &sink_) {
    fs::create_directories(folder_.path() + "/served/sub");
    fs::create_directories(folder_.path() + "/work");
    std::ofstream(folder_.path() + "/served/a.txt") << "abc";
    std::ofstream(folder_.path() + "/served/sub/big") << big_;
    std::ofstream(folder_.path() + "/served/sub/empty").flush();
    port_.emplace(*testenv::LoopbackPort::Take());
    auto server = testenv::ServerProcess::Start(
        {"/usr/bin/python3", fs::absolute("integration/http_source/file_server.py"),
         folder_.path() + "/served", absl::StrCat(port_->number()), folder_.path() + "/work"},
        folder_.path() + "/server.log");
    EXPECT_TRUE(server.ok()) << server.status();
    web_ = *std::move(server);
    const absl::Status ready = web_->WaitReady(absl::Seconds(60));
    EXPECT_TRUE(ready.ok()) << ready;
  }
  ~HttpSourceIntegrationTest() override { Stop(); }

  void Start(const std::string& ca_file) {
    strand_ = std::make_unique<ThreadStrand>("data_loader", &clock_);
    store_ = std::make_unique<store::MemoryStore>(strand_.get(), disk_);
    data_loader::ServerConfig config;
    config.site_directory = folder_.path() + "/site";
    config.page_token_key = "0123456789abcdef";
    config.http.allowed_url_prefixes = {base()};
    config.http.allowed_addresses = {"127.0.0.1"};
    config.http.ca_file = ca_file;
    data_loader::ServerDeps deps;
    deps.clock = &clock_;
    deps.strand = strand_.get();
    deps.store = store_.get();
    deps.access = &access_;
    deps.logger = &logger_;
    deps.credentials = grpc::InsecureServerCredentials();
    deps.seed = 1;
    auto server = data_loader::Server::Create(config, deps);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Stop() {
    if (server_ == nullptr) return;
    server_.reset();
    strand_->Stop();
    store_.reset();
    strand_.reset();
  }

  std::string base() const { return absl::StrCat("https://127.0.0.1:", port_->number(), "/"); }

  pb::DataLoad Load(const std::string& id, const std::string& uri,
                    const std::vector<std::string>& objects = {}) {
    const auto channel = server_->InProcessChannelForTest();
    pb::CreateDatasetRequest create;
    create.set_parent("projects/p");
    create.set_dataset_id(id);
    create.mutable_dataset()->set_source_uri(uri);
    for (const std::string& object : objects) create.mutable_dataset()->add_objects(object);
    pb::DataLoad load;
    {
      grpc::ClientContext context;
      pb::Dataset dataset;
      const grpc::Status made =
          pb::DatasetService::NewStub(channel)->CreateDataset(&context, create, &dataset);
      EXPECT_TRUE(made.ok()) << made.error_message();
    }
    const auto loads = pb::DataLoadService::NewStub(channel);
    {
      grpc::ClientContext context;
      pb::EnsureDataLoadRequest ensure;
      ensure.set_dataset("projects/p/datasets/" + id);
      EXPECT_TRUE(loads->EnsureDataLoad(&context, ensure, &load).ok());
    }
    grpc::ClientContext context;
    pb::GetDataLoadRequest watch;
    watch.set_name(load.name());
    const auto reader = loads->WatchDataLoad(&context, watch);
    while (reader->Read(&load)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
    return load;
  }

  std::string Read(const pb::DataLoad& load, const std::string& path) {
    for (const auto& version : fs::directory_iterator(folder_.path() + "/site/versions")) {
      const std::string id = load.version().substr(load.version().rfind('/') + 1);
      if (!version.is_directory() || version.path().filename().string().rfind(id, 0) != 0) continue;
      std::ifstream file(version.path() / path);
      return {std::istreambuf_iterator<char>(file), {}};
    }
    return "no such version";
  }

  const std::string big_ = std::string(20 << 20, 'b');
  TemporaryFolder folder_;
  SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  auth::FakeAccess access_;
  absl::optional<testenv::LoopbackPort> port_;
  std::unique_ptr<testenv::ServerProcess> web_;
  std::shared_ptr<store::MemoryImage> disk_ = std::make_shared<store::MemoryImage>();
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<data_loader::Server> server_;
};

TEST_F(HttpSourceIntegrationTest, LoadsAFolderAnIndexAndAnObjectOverTls) {
  Start(folder_.path() + "/work/ca.pem");
  const pb::DataLoad named = Load("named", base(), {"a.txt", "sub/big", "sub/empty"});
  ASSERT_EQ(named.state(), pb::DataLoad::STATE_SUCCEEDED) << named.message();
  EXPECT_EQ(named.loaded_bytes(), static_cast<int64_t>(big_.size()) + 3);
  EXPECT_EQ(Read(named, "sub/big"), big_);
  EXPECT_EQ(Read(named, "a.txt"), "abc");
  std::ofstream(folder_.path() + "/served/good.index")
      << "a.txt 3 sha256:" << absl::BytesToHexString(Sha256::Of("abc")) << "\nsub/big\n";
  const pb::DataLoad listed = Load("listed", base() + "good.index");
  ASSERT_EQ(listed.state(), pb::DataLoad::STATE_SUCCEEDED) << listed.message();
  EXPECT_EQ(Read(listed, "big"), big_);
  const pb::DataLoad one = Load("one", base() + "a.txt");
  ASSERT_EQ(one.state(), pb::DataLoad::STATE_SUCCEEDED) << one.message();
  EXPECT_EQ(Read(one, "a.txt"), "abc");
}

TEST_F(HttpSourceIntegrationTest, WhatIsWrongIsNamedAndNothingIsPublished) {
  Start(folder_.path() + "/work/ca.pem");
  std::ofstream(folder_.path() + "/served/bad.index")
      << "a.txt 3 sha256:" << absl::BytesToHexString(Sha256::Of("abd")) << "\n";
  const pb::DataLoad digest = Load("digest", base() + "bad.index");
  EXPECT_EQ(digest.reason(), "DIGEST_MISMATCH") << digest.message();
  EXPECT_TRUE(absl::StrContains(digest.message(), "a.txt")) << digest.message();
  EXPECT_EQ(Load("gone", base(), {"gone.npz"}).reason(), "OBJECT_NOT_FOUND");
  EXPECT_EQ(Load("other", "https://example.com/a").reason(), "SOURCE_NOT_ALLOWED");
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/site/versions"));
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/site/staging/loads"));
}

TEST_F(HttpSourceIntegrationTest, AServerThatIsNotTrustedIsNotRead) {
  Start("");
  const pb::DataLoad load = Load("d", base() + "a.txt");
  EXPECT_EQ(load.state(), pb::DataLoad::STATE_FAILED);
  EXPECT_EQ(load.reason(), "TLS_FAILED") << load.message();
}

}  // namespace
}  // namespace capstan
