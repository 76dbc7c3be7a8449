// Peers that give what they like, too much and too little, and a Site that fails now and then: what
// is passed on is the content, each byte once and in order, reading ends, and a peer that was wrong
// is not asked again.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/content/chunk_digests.h"
#include "libs/digest/sha256.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "proto/capstan/dataloader/v1/peer.pb.h"
#include "services/node_agent/adapters/peered_content.h"
#include "services/node_agent/ports/fake_loader_content.h"
#include "services/node_agent/ports/peer_network.h"

namespace {

namespace pb = capstan::dataloader::v1;
using capstan::content::ChunkCount;
using capstan::content::ChunkSize;
using capstan::content::kChunkBytes;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::node_agent::FakeLoaderContent;
using capstan::node_agent::PeerNetwork;

using Sink = absl::FunctionRef<absl::Status(absl::string_view)>;

constexpr int kPeers = 6;
// Each round gives a range or finds out a peer that is wrong.
constexpr int kMostQuestions = 40;

struct Whole {
  Whole() {
    for (int64_t i = 0; i < 2 * kChunkBytes + 100; ++i) {
      bytes.push_back(static_cast<char>(i * 7 + i / kChunkBytes));
    }
    for (int64_t chunk = 0; chunk < ChunkCount(size()); ++chunk) {
      digests.push_back(
          capstan::Sha256::Of(bytes.substr(static_cast<size_t>(chunk * kChunkBytes),
                                           static_cast<size_t>(ChunkSize(chunk, size())))));
    }
  }
  int64_t size() const { return static_cast<int64_t>(bytes.size()); }

  std::string bytes;
  std::vector<std::string> digests;
};

const Whole& TheContent() {
  static const Whole& content = *new Whole;
  return content;
}

class HostileNetwork final : public PeerNetwork {
 public:
  explicit HostileNetwork(FuzzInput* input) : input_(input) {}

  // A data_loader that heeds nothing of what it is told.
  absl::StatusOr<pb::FindPeersResponse> FindPeers(const pb::FindPeersRequest&) override {
    Require(++questions_ <= kMostQuestions);
    if (input_->Below(8) == 7) return absl::UnavailableError("down");
    pb::FindPeersResponse response;
    for (size_t count = input_->Below(4); count > 0; --count) {
      response.add_peers()->set_node(absl::StrCat("clusters/c/nodes/n", input_->Below(kPeers)));
    }
    return response;
  }

  absl::StatusOr<std::vector<std::string>> ReadChunkDigests(const pb::ContentRef&, int64_t first,
                                                            int count) override {
    if (input_->Below(8) == 7) return absl::UnavailableError("down");
    const auto& all = TheContent().digests;
    Require(first >= 0 && count >= 0 && first + count <= static_cast<int64_t>(all.size()));
    return std::vector<std::string>(all.begin() + first, all.begin() + first + count);
  }

  absl::Status Read(const pb::Peer& peer, const pb::ContentRef&, int64_t offset, int64_t length,
                    Sink sink) override {
    Require(wrong_.count(peer.node()) == 0);
    const std::string& bytes = TheContent().bytes;
    Require(offset >= 0 && length > 0 && offset + length <= TheContent().size());
    std::string given = bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
    const size_t kind = input_->Below(6);
    const size_t at = (input_->Byte() * 256 + input_->Byte()) * 16 % given.size();
    if (kind == 1) given[at] = static_cast<char>(given[at] ^ 1);
    if (kind == 2) given.resize(at);
    if (kind == 3) given.append(at, 'x');
    if (kind == 4) given.erase(0, 1);
    const size_t piece = input_->Flag() ? given.size() : 100'000 + input_->Byte() * 1000;
    for (size_t from = 0; from < given.size(); from += piece) {
      const absl::Status taken = sink(absl::string_view(given).substr(from, piece));
      if (taken.ok()) continue;
      // Too much after all that was wanted is not for us to find.
      if (kind != 3) wrong_.insert(peer.node());
      return taken;
    }
    if (kind == 5) return absl::ResourceExhaustedError("busy");
    return given.size() < static_cast<size_t>(length) ? absl::UnavailableError("ended early")
                                                      : absl::OkStatus();
  }

  void Stop() override {}

 private:
  FuzzInput* const input_;
  int questions_ = 0;
  std::set<std::string> wrong_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Whole& whole = TheContent();
  FuzzInput input(data, size);
  FakeLoaderContent site;
  site.piece_bytes = 700'000;
  pb::ContentRef content;
  content.set_resource("projects/p/datasets/d/versions/v");
  content.set_manifest_digest(site.Add({{"a", whole.bytes}}));
  site.on_piece = [&input](int64_t, std::string& piece) {
    const size_t kind = input.Below(8);
    if (kind == 7) return absl::UnavailableError("down");
    if (kind == 6) piece[0] = static_cast<char>(piece[0] ^ 1);
    return absl::OkStatus();
  };
  HostileNetwork network(&input);
  const capstan::SimulatedClock clock;
  capstan::log::TestingSink logged;
  const capstan::log::Logger logger("agent", &clock, &logged);
  capstan::node_agent::PeeredContentOptions options;
  options.least_bytes = 1;
  options.peer_range = kChunkBytes * static_cast<int64_t>(1 + input.Below(2));
  options.site_range = kChunkBytes;
  const auto reader =
      capstan::node_agent::MakePeeredContent(&site, &network, options, &clock, &logger, nullptr);
  const auto from = static_cast<int64_t>(input.Below(3)) * 500'000;
  const int64_t length = input.Flag() ? whole.size() - from : 1 + input.Byte() * 4000;
  std::string read;
  const absl::Status status =
      reader->Read(content, {from, length, whole.size()}, [&read](absl::string_view bytes) {
        read.append(bytes.data(), bytes.size());
        return absl::OkStatus();
      });
  const std::string expected =
      whole.bytes.substr(static_cast<size_t>(from), static_cast<size_t>(length));
  Require(read.size() <= expected.size());
  if (status.ok()) Require(read.size() == expected.size());
  // Where there were no digests, files are checked by theirs later on.
  bool digests = true;
  for (const auto& record : logged.records()) digests &= record.message.find("no digests") != 0;
  if (digests && status.ok()) Require(read == expected);
  return 0;
}
