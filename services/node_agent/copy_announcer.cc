#include "services/node_agent/copy_announcer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/rpc/call.h"

namespace capstan::node_agent {
namespace {

namespace pb = ::capstan::dataloader::v1;
using Async = pb::PeerService::StubInterface::async_interface;

constexpr size_t kMaxCopies = 2000;

}  // namespace

CopyAnnouncer::CopyAnnouncer(const std::shared_ptr<grpc::Channel>& loader, const HeldCopies* copies,
                             std::function<int()> uploads, CopyAnnouncerOptions options,
                             Strand* strand, const log::Logger* logger)
    : stub_(pb::PeerService::NewStub(loader)),
      copies_(copies),
      uploads_(std::move(uploads)),
      options_(std::move(options)),
      strand_(strand),
      logger_(logger) {}

void CopyAnnouncer::Step() {
  strand_->RunAfter(options_.often, [this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) Step();
  });
  if (saying_) return;
  const bool due = strand_->clock().Read().boot - said_at_ >= options_.seldom;
  if (due || said_growing_ || copies_->changes() != said_) Say();
}

void CopyAnnouncer::Say() {
  const uint64_t changes = copies_->changes();
  pb::AnnounceCopiesRequest request;
  request.set_address(options_.address);
  request.set_uploads(uploads_());
  request.set_max_uploads(options_.max_uploads);
  said_growing_ = false;
  for (const HeldCopies::Copy& held : copies_->List(kMaxCopies)) {
    pb::CopyOnNode& copy = *request.add_copies();
    copy.set_manifest_digest(absl::StrCat("sha256:", held.key.substr(held.key.find('/') + 1)));
    copy.set_have_bytes(held.have_bytes);
    copy.set_total_bytes(held.total_bytes);
    copy.set_whole(held.whole);
    said_growing_ = said_growing_ || !held.whole;
  }
  saying_ = true;
  rpc::CallUnary(stub_.get(), &Async::AnnounceCopies, std::move(request),
                 {.deadline = absl::Seconds(10)}, strand_,
                 [this, alive = std::weak_ptr<char>(alive_),
                  changes](absl::StatusOr<pb::AnnounceCopiesResponse> said) {
                   if (alive.expired()) return;
                   saying_ = false;
                   if (said.ok()) {
                     said_ = changes;
                     said_at_ = strand_->clock().Read().boot;
                   } else if (!failed_) {
                     logger_->Info("data_loader does not hear what the cache holds",
                                   {{"cause", said.status()}});
                   }
                   failed_ = !said.ok();
                 });
}

}  // namespace capstan::node_agent
