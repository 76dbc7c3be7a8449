#include "services/data_loader/api/peer_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/content/content_reader.h"
#include "libs/content/manifest.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "services/data_loader/api/calling_node.h"
#include "services/data_loader/api/check_content_ref.h"
#include "services/data_loader/api/content_stream.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr int kMaxCopies = 2000;
constexpr int kMaxNamed = 64;
constexpr int kMaxAddress = 300;
constexpr int kMaxChunks = 4096;
constexpr int kMaxDigestStreams = 64;

void CheckBytes(absl::string_view field, int64_t have, int64_t total, status::FieldErrors* errors) {
  if (have < 0 || total < have) {
    errors->Add(field, absl::StrCat("is ", have, " of ", total, "; expected 0 to that"));
  }
}

void CheckAddress(const std::string& address, status::FieldErrors* errors) {
  if (address.size() > kMaxAddress) errors->Add("address", "is too long for `host:port`");
}

absl::Status CheckFindPeers(const pb::FindPeersRequest& request) {
  status::FieldErrors errors;
  CheckContentRef(request.content(), &errors);
  CheckAddress(request.address(), &errors);
  CheckBytes("have_bytes", request.have_bytes(), request.total_bytes(), &errors);
  for (const auto* named : {&request.avoid(), &request.wrong()}) {
    if (named->size() > kMaxNamed) {
      errors.Add(named == &request.avoid() ? "avoid" : "wrong",
                 absl::StrCat("has ", named->size(), " Nodes; at most ", kMaxNamed));
    }
  }
  return errors.ToStatus();
}

absl::Status CheckAnnouncement(const pb::AnnounceCopiesRequest& request) {
  status::FieldErrors errors;
  CheckAddress(request.address(), &errors);
  if (request.copies_size() > kMaxCopies) {
    errors.Add("copies", absl::StrCat("has ", request.copies_size(), "; at most ", kMaxCopies));
    return errors.ToStatus();
  }
  for (int i = 0; i < request.copies_size(); ++i) {
    const pb::CopyOnNode& copy = request.copies(i);
    const absl::Status digest = content::DigestHex(copy.manifest_digest()).status();
    if (!digest.ok()) {
      errors.Add(absl::StrCat("copies[", i, "].manifest_digest"), digest.message());
    }
    CheckBytes(absl::StrCat("copies[", i, "].have_bytes"), copy.have_bytes(), copy.total_bytes(),
               &errors);
  }
  return errors.ToStatus();
}

// Sends digests, one chunk a turn of the strand, so that streams share it fairly.
class DigestStream : public std::enable_shared_from_this<DigestStream> {
 public:
  using Writer = std::shared_ptr<rpc::ServerStreamWriter<pb::ChunkDigests>>;

  DigestStream(Strand* disk, Writer writer, std::shared_ptr<ReaderPlace> place,
               std::shared_ptr<content::ChunkDigests> digests, std::string manifest_digest,
               content::ContentReader reader, int64_t chunk, int64_t end)
      : disk_(disk),
        writer_(std::move(writer)),
        place_(std::move(place)),
        digests_(std::move(digests)),
        manifest_digest_(std::move(manifest_digest)),
        reader_(std::move(reader)),
        chunk_(chunk),
        end_(end) {}

  void Step() {
    pb::ChunkDigests piece;
    if (chunk_ < end_) {
      const absl::StatusOr<std::string> digest = digests_->Of(manifest_digest_, reader_, chunk_);
      if (!digest.ok()) return writer_->Finish(digest.status());
      ++chunk_;
      // At most 4,096 small messages, within what a stream takes.
      piece.set_sha256(*digest);
      // Over, or not allowed any more.
      if (!writer_->Write(std::move(piece)).ok()) return;
    }
    if (chunk_ >= end_) return writer_->Finish(absl::OkStatus());
    disk_->Post([self = shared_from_this()] { self->Step(); });
  }

 private:
  Strand* const disk_;
  const Writer writer_;
  const std::shared_ptr<ReaderPlace> place_;
  const std::shared_ptr<content::ChunkDigests> digests_;
  const std::string manifest_digest_;
  content::ContentReader reader_;
  int64_t chunk_;
  const int64_t end_;
};

}  // namespace

PeerService::PeerService(const ApiDeps& deps, const Site* site, std::vector<Strand*> readers,
                         metrics::Registry* registry)
    : deps_(deps), site_(site), readers_(std::move(readers)) {
  if (registry == nullptr) return;
  const char* const help = "Answers to Nodes that want content, by where they were sent";
  to_peers_ = registry->AddCounter("peer_answers_total", help, {{"to", "peers"}});
  to_site_ = registry->AddCounter("peer_answers_total", help, {{"to", "site"}});
}

grpc::ServerUnaryReactor* PeerService::FindPeers(grpc::CallbackServerContext* context,
                                                 const pb::FindPeersRequest* request,
                                                 pb::FindPeersResponse* response) {
  return rpc::HandleUnary(context, deps_.access, "/capstan.dataloader.v1.PeerService/FindPeers",
                          request, response, CheckFindPeers,
                          [this](const rpc::Call& call, const pb::FindPeersRequest& request,
                                 pb::FindPeersResponse* response, rpc::Finish finish) {
                            deps_.strand->Post([this, node = NodeOf(call.caller), &request,
                                                response, finish = std::move(finish)]() mutable {
                              absl::StatusOr<pb::FindPeersResponse> found =
                                  deps_.engine->FindPeers(request, node);
                              if (found.ok() && to_peers_.has_value()) {
                                (found->peers().empty() ? to_site_ : to_peers_)->Increment();
                              }
                              rpc::RespondWith(response, std::move(finish))(std::move(found));
                            });
                          });
}

grpc::ServerUnaryReactor* PeerService::AnnounceCopies(grpc::CallbackServerContext* context,
                                                      const pb::AnnounceCopiesRequest* request,
                                                      pb::AnnounceCopiesResponse* response) {
  return rpc::HandleUnary(context, deps_.access,
                          "/capstan.dataloader.v1.PeerService/AnnounceCopies", request, response,
                          CheckAnnouncement,
                          [this](const rpc::Call& call, const pb::AnnounceCopiesRequest& request,
                                 pb::AnnounceCopiesResponse*, rpc::Finish finish) {
                            deps_.strand->Post([this, node = NodeOf(call.caller), &request,
                                                finish = std::move(finish)]() mutable {
                              finish(deps_.engine->AnnounceCopies(request, node));
                            });
                          });
}

grpc::ServerUnaryReactor* PeerService::CheckReader(grpc::CallbackServerContext* context,
                                                   const pb::CheckReaderRequest* request,
                                                   pb::CheckReaderResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.PeerService/CheckReader", request, response,
      [](const pb::CheckReaderRequest& r) {
        status::FieldErrors errors;
        CheckContentRef(r.content(), &errors);
        const absl::Status reader = resource::NodeName::Parse(r.reader()).status();
        if (!reader.ok()) errors.Add("reader", reader.message());
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::CheckReaderRequest& request, pb::CheckReaderResponse*,
             rpc::Finish finish) {
        deps_.strand->Post(
            [this, node = NodeOf(call.caller), &request, finish = std::move(finish)]() mutable {
              finish(deps_.engine->CheckReader(request, node));
            });
      });
}

grpc::ServerWriteReactor<pb::ChunkDigests>* PeerService::ReadChunkDigests(
    grpc::CallbackServerContext* context, const pb::ReadChunkDigestsRequest* request) {
  return rpc::HandleServerStream<pb::ChunkDigests>(
      context, deps_.access, "/capstan.dataloader.v1.PeerService/ReadChunkDigests", request,
      [](const pb::ReadChunkDigestsRequest& r) {
        status::FieldErrors errors;
        CheckContentRef(r.content(), &errors);
        if (r.first_chunk() < 0) errors.Add("first_chunk", "is negative");
        if (r.chunk_count() < 1 || r.chunk_count() > kMaxChunks) {
          errors.Add("chunk_count",
                     absl::StrCat("is ", r.chunk_count(), "; expected 1 to ", kMaxChunks));
        }
        return errors.ToStatus();
      },
      [this](const DigestStream::Writer& writer, const pb::ReadChunkDigestsRequest& request) {
        auto place = ReaderPlace::Take(reading_, kMaxDigestStreams);
        if (place == nullptr) {
          return writer->Finish(status::WithRetryDelay(
              status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_READERS",
                            absl::StrCat(kMaxDigestStreams, " streams of digests are open")),
              absl::Seconds(1)));
        }
        Strand* const disk = readers_[next_reader_++ % readers_.size()];
        deps_.strand->Post([this, disk, writer, place, content = request.content(),
                            node = NodeOf(writer->caller()), first = request.first_chunk(),
                            count = request.chunk_count()] {
          absl::StatusOr<ReadableContent> readable = deps_.engine->CheckRead(content, node);
          if (!readable.ok()) return writer->Finish(readable.status());
          disk->Post([site = site_, digests = digests_, disk, writer, place,
                      readable = *std::move(readable), first, count] {
            absl::StatusOr<OpenedContent> opened =
                site->OpenContent(readable.folder, readable.manifest_digest);
            if (!opened.ok()) return writer->Finish(opened.status());
            absl::StatusOr<SafeRoot> root = SafeRoot::Open(opened->directory);
            if (!root.ok()) return writer->Finish(root.status());
            content::ContentReader reader(*std::move(root), std::move(opened->manifest));
            const int64_t end = std::min(first + count, content::ChunkCount(reader.total_bytes()));
            std::make_shared<DigestStream>(disk, writer, place, digests, readable.manifest_digest,
                                           std::move(reader), first, end)
                ->Step();
          });
        });
      });
}

}  // namespace capstan::data_loader
