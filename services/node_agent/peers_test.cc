// Content between Nodes over real connections: what a peer server gives, and what a reader makes of
// peers that are busy, slow, gone, wrong, or not there yet.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "gtest/gtest.h"
#include "libs/auth/spiffe_id.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/content/chunk_digests.h"
#include "libs/digest/sha256.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "proto/capstan/dataloader/v1/peer.pb.h"
#include "services/node_agent/adapters/content_fetch.h"
#include "services/node_agent/adapters/peer_grpc_network.h"
#include "services/node_agent/adapters/peered_content.h"
#include "services/node_agent/held_copies.h"
#include "services/node_agent/peer_server.h"
#include "services/node_agent/ports/fake_loader_content.h"
#include "services/node_agent/ports/peer_network.h"
#include "services/node_agent/ports/reader_check.h"

namespace capstan::node_agent {
namespace {

namespace fs = std::filesystem;
namespace pb = ::capstan::dataloader::v1;

constexpr int64_t kChunk = content::kChunkBytes;

class FakeReaderCheck final : public ReaderCheck {
 public:
  void Check(const std::string& reader, const pb::ContentRef& content,
             absl::AnyInvocable<void(absl::Status)> done) override {
    EXPECT_EQ(reader, "clusters/local/nodes/reader");
    EXPECT_EQ(content.holder(), "job/1");
    done(answer);
  }
  absl::Status answer;
};

// Peers over the network; data_loader's part is the test's.
class TestNetwork final : public PeerNetwork {
 public:
  TestNetwork(std::unique_ptr<PeerNetwork> real, const std::string* bytes)
      : real_(std::move(real)), bytes_(bytes) {}

  absl::StatusOr<pb::FindPeersResponse> FindPeers(const pb::FindPeersRequest& request) override {
    questions.push_back(request);
    std::set<std::string> not_these(request.avoid().begin(), request.avoid().end());
    not_these.insert(request.wrong().begin(), request.wrong().end());
    pb::FindPeersResponse response;
    for (const pb::Peer& peer : peers) {
      if (not_these.count(peer.node()) == 0) *response.add_peers() = peer;
    }
    return response;
  }
  absl::StatusOr<std::vector<std::string>> ReadChunkDigests(const pb::ContentRef&, int64_t first,
                                                            int count) override {
    std::vector<std::string> digests;
    for (int64_t chunk = first; chunk < first + count; ++chunk) {
      if (chunk * kChunk >= static_cast<int64_t>(bytes_->size())) break;
      digests.push_back(Sha256::Of(bytes_->substr(static_cast<size_t>(chunk * kChunk), kChunk)));
    }
    return digests;
  }
  absl::Status Read(const pb::Peer& peer, const pb::ContentRef& content, int64_t offset,
                    int64_t length,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) override {
    return real_->Read(peer, content, offset, length, [&](absl::string_view piece) {
      given[peer.node()] += static_cast<int64_t>(piece.size());
      return sink(piece);
    });
  }
  void Stop() override { real_->Stop(); }

  std::vector<pb::Peer> peers;
  std::vector<pb::FindPeersRequest> questions;
  // Bytes that came, by peer.
  std::map<std::string, int64_t> given;

 private:
  const std::unique_ptr<PeerNetwork> real_;
  const std::string* const bytes_;
};

class PeersTest : public ::testing::Test {
 protected:
  // A Node that serves.
  struct Holder {
    TemporaryFolder folder;
    std::unique_ptr<HeldCopies> copies;
    FakeReaderCheck check;
    std::unique_ptr<PeerServer> server;
    pb::Peer peer;
  };

  PeersTest() : logger_("test", &clock_, &sink_), strand_("test", &clock_) {
    access_.CallAs(auth::SpiffeId::Node("test.capstan.dev", "local", "reader"));
    Random random(11);
    for (const auto& [path, size] :
         std::map<std::string, int64_t>{{"a", 5 * kChunk / 2}, {"b", 7 * kChunk}, {"c", 12345}}) {
      std::string& file = files_[path];
      file.resize(static_cast<size_t>(size));
      for (size_t i = 0; i < file.size(); i += 7) file[i] = static_cast<char>(random.Next());
      bytes_ += file;
    }
    content_.set_resource("projects/p/datasets/d/versions/v");
    content_.set_manifest_digest(site_.Add(files_));
    content_.set_holder("job/1");
    site_.piece_bytes = 300'000;
    key_ = absl::StrCat("versions/", absl::StripPrefix(content_.manifest_digest(), "sha256:"));
    network_ = std::make_unique<TestNetwork>(
        MakePeerGrpcNetwork(
            grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()),
            [](const std::string& address, const std::string& identity_path) {
              EXPECT_EQ(identity_path.rfind("/node/local/", 0), 0u) << identity_path;
              return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
            },
            {.cluster = "local", .patience = absl::Milliseconds(400)}, &strand_, nullptr),
        &bytes_);
    options_.address = "127.0.0.1:7";
    options_.peer_range = 4 * kChunk;
    options_.site_range = 2 * kChunk;
    reader_ = MakePeeredContent(&site_, network_.get(), options_, &clock_, &logger_, nullptr);
  }

  int64_t total() const { return static_cast<int64_t>(bytes_.size()); }

  static void Write(const std::string& path, const std::string& bytes) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream file(path, std::ios::binary);
    file << bytes;
  }

  // A Node with a whole copy, or one that is to grow.
  Holder& AddHolder(const std::string& name, bool whole = true, PeerContentOptions options = {}) {
    Holder& holder = holders_.emplace_back();
    const std::string root = holder.folder.path();
    const std::string files = whole ? key_ : StagingFolderOf(key_) + "/files";
    const std::string manifest = whole ? key_ : StagingFolderOf(key_) + "/content";
    for (const auto& [path, bytes] : files_)
      Write(absl::StrCat(root, "/", files, "/", path), bytes);
    Write(absl::StrCat(root, "/", manifest, ".manifest"),
          site_.ReadManifest(content_)->SerializeAsString());
    holder.copies = std::make_unique<HeldCopies>(root);
    if (whole) {
      holder.copies->Whole(key_, total());
    } else {
      holder.copies->Growing(key_, total());
    }
    options.cluster = "local";
    PeerServerConfig config;
    config.address = "127.0.0.1:0";
    config.credentials = grpc::InsecureServerCredentials();
    config.content = options;
    auto server =
        PeerServer::Start(config, &access_, holder.copies.get(), &holder.check, &clock_, nullptr);
    EXPECT_TRUE(server.ok()) << server.status();
    holder.server = *std::move(server);
    AddPeer(holder, name, holder.server->port());
    return holder;
  }
  void AddPeer(Holder& holder, const std::string& name, int port) {
    holder.peer.set_node(absl::StrCat("clusters/local/nodes/", name));
    holder.peer.set_address(absl::StrCat("127.0.0.1:", port));
    network_->peers.push_back(holder.peer);
  }
  int64_t GivenBy(const std::string& name) {
    return network_->given[absl::StrCat("clusters/local/nodes/", name)];
  }

  // What comes of the whole content.
  std::string ReadAll() {
    std::string got;
    const absl::Status read =
        reader_->Read(content_, {0, total(), total()}, [&](absl::string_view piece) {
          got.append(piece.data(), piece.size());
          if (on_bytes_) on_bytes_(static_cast<int64_t>(got.size()));
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
    return got;
  }
  // What one peer gives, unchecked.
  absl::StatusOr<std::string> Ask(const Holder& holder, int64_t offset, int64_t length) {
    std::string got;
    const absl::Status read =
        network_->Read(holder.peer, content_, offset, length, [&](absl::string_view piece) {
          got.append(piece.data(), piece.size());
          return absl::OkStatus();
        });
    if (!read.ok()) return read;
    return got;
  }

  SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  ThreadStrand strand_;
  auth::FakeAccess access_;
  FakeLoaderContent site_;
  std::map<std::string, std::string> files_;
  std::string bytes_;
  pb::ContentRef content_;
  std::string key_;
  std::deque<Holder> holders_;
  std::unique_ptr<TestNetwork> network_;
  PeeredContentOptions options_;
  std::unique_ptr<LoaderContent> reader_;
  std::function<void(int64_t)> on_bytes_;
};

TEST_F(PeersTest, AnyRangeIsGivenAsItIs) {
  const Holder& holder = AddHolder("a");
  Random random(5);
  for (int i = 0; i < 30; ++i) {
    const int64_t offset = random.Between(int64_t{0}, total() - 1);
    const int64_t length = random.Between(int64_t{1}, total() - offset);
    const auto got = Ask(holder, offset, length);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_TRUE(*got == bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(length)))
        << offset << " " << length;
  }
  EXPECT_TRUE(absl::IsOutOfRange(Ask(holder, total(), 1).status()));
}

TEST_F(PeersTest, AllComesFromThePeerAndNothingFromTheSite) {
  AddHolder("a");
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(site_.sent_bytes(), 0);
  EXPECT_EQ(GivenBy("a"), total());
  EXPECT_EQ(network_->questions.front().address(), options_.address);
  EXPECT_EQ(network_->questions.back().have_bytes(), 8 * kChunk);
}

TEST_F(PeersTest, ARangeMayBeginAndEndInsideAChunk) {
  AddHolder("a");
  for (const auto& [offset, length] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {kChunk - 1, 2}, {kChunk / 2, 3 * kChunk}, {total() - 5, 5}}) {
    std::string got;
    const absl::Status read =
        reader_->Read(content_, {offset, length, total()}, [&](absl::string_view piece) {
          got.append(piece.data(), piece.size());
          return absl::OkStatus();
        });
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_TRUE(got == bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(length)));
  }
  EXPECT_EQ(site_.sent_bytes(), 0);
}

TEST_F(PeersTest, WithoutPeersTheSiteGivesAll) {
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(site_.sent_bytes(), total());
}

TEST_F(PeersTest, APeerWithWrongBytesIsReportedAndNothingWrongIsPassedOn) {
  Holder& wrong = AddHolder("wrong");
  AddHolder("right");
  // One byte of the sixth chunk.
  std::string damaged = files_["b"];
  damaged[static_cast<size_t>(3 * kChunk)] ^= 1;
  Write(absl::StrCat(wrong.folder.path(), "/", key_, "/b"), damaged);
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(site_.sent_bytes(), 0);
  EXPECT_GE(GivenBy("right"), total() - 6 * kChunk);
  ASSERT_EQ(network_->questions.back().wrong_size(), 1);
  EXPECT_EQ(network_->questions.back().wrong(0), wrong.peer.node());
  // It is not asked again for this content.
  const int64_t before = GivenBy("wrong");
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(GivenBy("wrong"), before);
}

TEST_F(PeersTest, WithOnlyAWrongPeerTheSiteGivesTheRest) {
  Holder& wrong = AddHolder("wrong");
  std::string damaged = files_["b"];
  damaged.back() ^= 1;
  Write(absl::StrCat(wrong.folder.path(), "/", key_, "/b"), damaged);
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_LE(site_.sent_bytes(), 2 * kChunk) << "what was right was not fetched twice";
}

TEST_F(PeersTest, AfterAPeerThatDiesAnotherGoesOnFromTheVerifiedByte) {
  Holder& dying = AddHolder("dying");
  AddHolder("other");
  on_bytes_ = [&](int64_t got) {
    if (got >= 3 * kChunk && dying.server != nullptr) {
      dying.server->Drain(absl::ZeroDuration());
      dying.server = nullptr;
    }
  };
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(site_.sent_bytes(), 0);
  EXPECT_GT(GivenBy("dying"), 0);
  // Whole chunks are checked, so that less than one of them, and what was on the wire, came twice.
  EXPECT_LE(GivenBy("other"), total() - 3 * kChunk);
}

TEST_F(PeersTest, WhoIsBusySendsToAnother) {
  PeerContentOptions none;
  none.max_uploads = 0;
  const Holder& busy = AddHolder("busy", true, none);
  AddHolder("other");
  EXPECT_EQ(status::Reason(Ask(busy, 0, 1).status()), "PEER_BUSY");
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(GivenBy("other"), total());
}

TEST_F(PeersTest, WhoIsSilentIsLeft) {
  // Takes the connection and says nothing.
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  Holder& silent = holders_.emplace_back();
  AddPeer(silent, "silent", ntohs(address.sin_port));
  AddHolder("other");
  EXPECT_EQ(status::Reason(Ask(silent, 0, 1).status()), "PEER_STALLED");
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(GivenBy("other"), total());
  ::close(listener);
}

TEST_F(PeersTest, WhatIsOnItsWayIsGivenAsItComes) {
  Holder& growing = AddHolder("growing", false);
  // The next bytes come when the reader has those before: it has nothing else to wait for.
  growing.copies->Advanced(key_, 100);
  on_bytes_ = nullptr;
  std::string got;
  const absl::Status read =
      network_->Read(growing.peer, content_, 0, total(), [&](absl::string_view piece) {
        got.append(piece.data(), piece.size());
        const auto have = static_cast<int64_t>(got.size());
        if (have < total()) {
          growing.copies->Advanced(key_, std::min(total() - 1, have + kChunk));
        }
        if (have == total() - 1) {
          // Becomes whole under its reader, by a rename.
          const std::string root = growing.folder.path();
          fs::create_directories(root + "/versions");
          fs::rename(absl::StrCat(root, "/", StagingFolderOf(key_), "/files"),
                     absl::StrCat(root, "/", key_));
          growing.copies->Whole(key_, total());
        }
        return absl::OkStatus();
      });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_TRUE(got == bytes_);
}

TEST_F(PeersTest, WhoHasLessOrGetsNothingSendsToAnother) {
  PeerContentOptions hasty;
  hasty.heartbeat = absl::Milliseconds(50);
  hasty.starved_after = absl::Milliseconds(800);
  Holder& starved = AddHolder("starved", false, hasty);
  starved.copies->Advanced(key_, kChunk);
  EXPECT_EQ(status::Reason(Ask(starved, kChunk + 1, 1).status()), "PEER_BEHIND");
  // It says that it is there for longer than the reader bears silence.
  EXPECT_EQ(status::Reason(Ask(starved, kChunk, 1).status()), "PEER_STARVED");
  AddHolder("other");
  EXPECT_TRUE(ReadAll() == bytes_);
  EXPECT_EQ(site_.sent_bytes(), 0);
  starved.copies->Gone(key_);
  EXPECT_TRUE(absl::IsNotFound(Ask(starved, 0, 1).status()));
}

TEST_F(PeersTest, StrangersLearnNothing) {
  Holder& holder = AddHolder("a");
  holder.check.answer = status::NotFound(content_.resource());
  EXPECT_TRUE(absl::IsNotFound(Ask(holder, 0, 1).status()));
  holder.check.answer = absl::UnavailableError("data_loader is away");
  EXPECT_EQ(status::Reason(Ask(holder, 0, 1).status()), "PEER_UNSURE");
  holder.check.answer = absl::OkStatus();
  EXPECT_TRUE(Ask(holder, 0, 1).ok());
  access_.CallAs(auth::SpiffeId::Node("test.capstan.dev", "other", "reader"));
  EXPECT_TRUE(absl::IsNotFound(Ask(holder, 0, 1).status())) << "of another Cluster";
  access_.CallAs(auth::SpiffeId::Person("test.capstan.dev", "1000"));
  EXPECT_TRUE(absl::IsNotFound(Ask(holder, 0, 1).status()));
  // Nor does a reader dial a Node of another Cluster.
  holder.peer.set_node("clusters/other/nodes/a");
  EXPECT_TRUE(absl::IsPermissionDenied(Ask(holder, 0, 1).status()));
}

TEST_F(PeersTest, TheRateIsKept) {
  PeerContentOptions slow;
  slow.bytes_per_second = 8 * kChunk;
  const Holder& holder = AddHolder("slow", true, slow);
  const BootTime begun = clock_.Read().boot;
  ASSERT_TRUE(Ask(holder, 0, 4 * kChunk).ok());
  // All but the first message has waited for its turn.
  EXPECT_GE(clock_.Read().boot - begun, absl::Milliseconds(400));
}

}  // namespace
}  // namespace capstan::node_agent
