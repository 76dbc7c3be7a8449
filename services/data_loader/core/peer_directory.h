#ifndef CAPSTAN_SERVICES_DATA_LOADER_CORE_PEER_DIRECTORY_H_
#define CAPSTAN_SERVICES_DATA_LOADER_CORE_PEER_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::data_loader {

struct PeerDirectoryConfig {
  // Named in one answer.
  size_t max_peers = 4;
  // How long what a Node says of content on its way holds, and of what is whole.
  absl::Duration growing_life = absl::Seconds(10);
  absl::Duration whole_life = absl::Minutes(3);
  // Beyond, what a Node has is not known.
  size_t max_copies_per_node = 2000;
  // How long a Node that gave wrong bytes is not asked for that content.
  absl::Duration wrong_life = absl::Hours(24);
};

// Content that a Node has, or is being brought.
struct NodeCopy {
  std::string digest;
  int64_t have_bytes = 0;
  int64_t total_bytes = 0;
  bool whole = false;
};

// What a Node says of itself.
struct NodeCopies {
  // `<cluster>/<node>`.
  std::string node;
  // Where it serves; empty if it does not.
  std::string address;
  int uploads = 0;
  int max_uploads = 0;
  std::vector<NodeCopy> copies;
};

// Who wants content.
struct PeerQuestion {
  // `<cluster>/<node>`.
  std::string node;
  std::string address;
  NodeCopy copy;
  // Nodes that it does not want to be sent to.
  std::set<std::string> avoid;
};

struct ChosenPeer {
  std::string node;
  std::string address;
  friend bool operator==(const ChosenPeer&, const ChosenPeer&) = default;
};

// Which Nodes have what, as far as they say so, and whom a Node that wants it should ask. Pure, and
// soft state: it is filled again by what Nodes say.
//
// Those to whom content is on its way stand in a line. Who joins stands before those that have less
// of it, otherwise last, and nobody changes places; a Node is sent to whole copies and to those who
// stand before it, never behind, so that no two wait for each other. The first of a line without a
// whole copy is sent to nobody: it reads the Site. Of those that can give, the least loaded come
// first, where load is the larger of what the Node says and how many were sent to it, and one more
// while it waits for bytes itself.
class PeerDirectory {
 public:
  explicit PeerDirectory(PeerDirectoryConfig config = {}) : config_(config) {}

  // Takes the place of what the Node said before; see AnnounceCopies.
  void Announce(const NodeCopies& copies, BootTime now);
  // At most max_peers, best first, of the asker's Cluster and never itself; none: read the Site.
  // The asker then stands in the content's line, and counts as load of the first.
  std::vector<ChosenPeer> Find(const PeerQuestion& question, BootTime now);
  // A Node has served bytes that are not those of their digests. True if that is news.
  bool ReportWrong(const std::string& digest, const std::string& node, BootTime now);
  // Whether the Node has said that it has the content, or some of it.
  bool Has(const std::string& node, const std::string& digest, BootTime now) const;

  // A copy as `Copies` shows it.
  struct KnownCopy {
    std::string node;
    NodeCopy copy;
    // From whom it comes; empty: the Site, or it is whole.
    std::string source;
    // Since it began to come; 0 while unknown, and when it is whole.
    double bytes_per_second = 0;
    bool wrong = false;
  };
  // By node.
  std::vector<KnownCopy> Copies(const std::string& digest, BootTime now) const;

 private:
  struct Node {
    std::string address;
    int uploads = 0;
    int max_uploads = 0;
    // How many were sent to it, and have not been elsewhere since.
    int assigned = 0;
    BootTime heard = BootTime::InfinitePast();
    // By digest; of each content in `contents_` too.
    std::set<std::string> copies;
  };
  struct Copy {
    NodeCopy copy;
    BootTime heard = BootTime::InfinitePast();
    // To whom it was sent first; while it grows.
    std::string source;
    // When it was heard of first, and what was there then.
    BootTime begun;
    int64_t begun_bytes = 0;
  };
  struct Content {
    std::map<std::string, Copy> copies;
    // Those to whom it is on its way.
    std::vector<std::string> line;
    // Since when they are known to be wrong.
    std::map<std::string, BootTime> wrong;
  };

  bool Lives(const Copy& copy, BootTime now) const;
  Copy& Add(const std::string& node, const NodeCopy& said, BootTime now);
  void Remove(const std::string& digest, const std::string& node);
  void Send(Copy& copy, const std::string& source);
  // Ends that `node` is sent to `source`.
  void Unsend(Content& content, const std::string& node, const std::string& source);
  // Removes what was not heard of for long.
  void Expire(BootTime now);

  PeerDirectoryConfig config_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, Content> contents_;
  BootTime next_expiry_ = BootTime::InfinitePast();
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_CORE_PEER_DIRECTORY_H_
