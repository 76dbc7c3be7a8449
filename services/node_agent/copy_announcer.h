#ifndef CAPSTAN_SERVICES_NODE_AGENT_COPY_ANNOUNCER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_COPY_ANNOUNCER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "libs/log/log.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/peer.grpc.pb.h"
#include "services/node_agent/held_copies.h"

namespace capstan::node_agent {

struct CopyAnnouncerOptions {
  // Where the Node serves its peers; empty if it does not.
  std::string address;
  int max_uploads = 0;
  // While content comes, and when something has changed.
  absl::Duration often = absl::Seconds(2);
  // Else: less than data_loader remembers.
  absl::Duration seldom = absl::Seconds(60);
};

// Says to data_loader what the Node's cache holds. On the strand; ends with its destructor.
class CopyAnnouncer {
 public:
  // `uploads` says how many read from this Node now. All must outlive it.
  CopyAnnouncer(const std::shared_ptr<grpc::Channel>& loader, const HeldCopies* copies,
                std::function<int()> uploads, CopyAnnouncerOptions options, Strand* strand,
                const log::Logger* logger);

  void Start() { Step(); }

 private:
  void Step();
  void Say();

  const std::unique_ptr<capstan::dataloader::v1::PeerService::Stub> stub_;
  const HeldCopies* const copies_;
  const std::function<int()> uploads_;
  const CopyAnnouncerOptions options_;
  Strand* const strand_;
  const log::Logger* const logger_;
  // What was said last, if it was heard.
  uint64_t said_ = ~uint64_t{0};
  bool said_growing_ = false;
  bool saying_ = false;
  bool failed_ = false;
  BootTime said_at_ = BootTime::InfinitePast();
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_COPY_ANNOUNCER_H_
