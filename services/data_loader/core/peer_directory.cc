#include "services/data_loader/core/peer_directory.h"

#include <algorithm>
#include <tuple>

namespace capstan::data_loader {
namespace {

constexpr absl::Duration kExpireEvery = absl::Seconds(5);
// What a Node may be behind the asker by what is known here, for that is late.
constexpr int64_t kMaxBehind = int64_t{256} << 20;

absl::string_view ClusterOf(absl::string_view node) { return node.substr(0, node.find('/')); }

}  // namespace

bool PeerDirectory::Lives(const Copy& copy, BootTime now) const {
  return now - copy.heard < (copy.copy.whole ? config_.whole_life : config_.growing_life);
}

void PeerDirectory::Send(Copy& copy, const std::string& source) {
  if (copy.source == source) return;
  const auto former = nodes_.find(copy.source);
  if (former != nodes_.end()) --former->second.assigned;
  const auto next = nodes_.find(source);
  if (next != nodes_.end()) ++next->second.assigned;
  copy.source = next == nodes_.end() ? "" : source;
}

void PeerDirectory::Unsend(Content& content, const std::string& node, const std::string& source) {
  Copy& copy = content.copies.at(node);
  if (copy.source == source) Send(copy, "");
}

PeerDirectory::Copy& PeerDirectory::Add(const std::string& node, const NodeCopy& said,
                                        BootTime now) {
  Content& content = contents_[said.digest];
  const auto [it, added] = content.copies.try_emplace(node);
  Copy& copy = it->second;
  const bool was_in_line = !added && !copy.copy.whole;
  if (!was_in_line) {
    copy.begun = now;
    copy.begun_bytes = said.have_bytes;
  }
  copy.copy = said;
  copy.heard = now;
  nodes_[node].copies.insert(said.digest);
  auto& line = content.line;
  if (said.whole) {
    Send(copy, "");
    if (was_in_line) line.erase(std::remove(line.begin(), line.end(), node), line.end());
  } else if (!was_in_line) {
    const auto before = std::find_if(line.begin(), line.end(), [&](const std::string& other) {
      return content.copies.at(other).copy.have_bytes < said.have_bytes;
    });
    // Whoever was sent to it while it had another place asks again.
    for (auto other = line.begin(); other != before; ++other) Unsend(content, *other, node);
    line.insert(before, node);
  }
  return copy;
}

void PeerDirectory::Remove(const std::string& digest, const std::string& node) {
  const auto content = contents_.find(digest);
  if (content == contents_.end()) return;
  const auto copy = content->second.copies.find(node);
  if (copy == content->second.copies.end()) return;
  Send(copy->second, "");
  auto& line = content->second.line;
  line.erase(std::remove(line.begin(), line.end(), node), line.end());
  for (const std::string& other : line) Unsend(content->second, other, node);
  content->second.copies.erase(copy);
  if (content->second.copies.empty() && content->second.wrong.empty()) contents_.erase(content);
  const auto known = nodes_.find(node);
  if (known != nodes_.end()) known->second.copies.erase(digest);
}

void PeerDirectory::Expire(BootTime now) {
  if (now < next_expiry_) return;
  next_expiry_ = now + kExpireEvery;
  std::vector<std::pair<std::string, std::string>> gone;
  for (auto content = contents_.begin(); content != contents_.end();) {
    for (const auto& [node, copy] : content->second.copies) {
      if (!Lives(copy, now)) gone.emplace_back(content->first, node);
    }
    auto& wrong = content->second.wrong;
    for (auto it = wrong.begin(); it != wrong.end();) {
      it = now - it->second < config_.wrong_life ? std::next(it) : wrong.erase(it);
    }
    const bool empty = content->second.copies.empty() && wrong.empty();
    content = empty ? contents_.erase(content) : std::next(content);
  }
  for (const auto& [digest, node] : gone) Remove(digest, node);
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    const bool silent = it->second.copies.empty() && now - it->second.heard >= config_.whole_life;
    // Whoever was sent to it is so no more, for that needs a copy.
    it = silent && it->second.assigned == 0 ? nodes_.erase(it) : std::next(it);
  }
}

void PeerDirectory::Announce(const NodeCopies& said, BootTime now) {
  Expire(now);
  Node& node = nodes_[said.node];
  node.address = said.address;
  node.uploads = said.uploads;
  node.max_uploads = said.max_uploads;
  node.heard = now;
  std::set<std::string> named;
  for (const NodeCopy& copy : said.copies) {
    if (named.size() >= config_.max_copies_per_node) break;
    named.insert(copy.digest);
    Add(said.node, copy, now);
  }
  // Content on its way may have been asked for after this was said.
  std::vector<std::string> left;
  for (const std::string& digest : node.copies) {
    if (named.count(digest) == 0 && contents_.at(digest).copies.at(said.node).copy.whole) {
      left.push_back(digest);
    }
  }
  for (const std::string& digest : left) Remove(digest, said.node);
}

std::vector<ChosenPeer> PeerDirectory::Find(const PeerQuestion& question, BootTime now) {
  Expire(now);
  Node& asker = nodes_[question.node];
  asker.address = question.address;
  asker.heard = now;
  NodeCopy growing = question.copy;
  growing.whole = false;
  Copy& own = Add(question.node, growing, now);
  // What it was sent to before is not load of its making any more.
  Send(own, "");
  const Content& content = contents_.at(question.copy.digest);

  // (load, not whole, place in the line, node): the smallest is the best. Who still waits for its
  // own bytes counts as one more loaded.
  std::vector<std::tuple<int, bool, int64_t, std::string>> able;
  const auto consider = [&](const std::string& name, int64_t place) {
    const Copy& copy = content.copies.at(name);
    const Node& node = nodes_.at(name);
    if (name == question.node || node.address.empty() || !Lives(copy, now) ||
        ClusterOf(name) != ClusterOf(question.node) || question.avoid.count(name) != 0 ||
        content.wrong.count(name) != 0) {
      return;
    }
    if (!copy.copy.whole && copy.copy.have_bytes + kMaxBehind < question.copy.have_bytes) return;
    const int load = std::max(node.uploads, node.assigned);
    // One that has not yet said how many it serves is taken to serve one.
    if (load >= std::max(node.max_uploads, 1)) return;
    able.emplace_back(load + (copy.copy.whole ? 0 : 1), !copy.copy.whole, place, name);
  };
  for (const auto& [name, copy] : content.copies) {
    if (copy.copy.whole) consider(name, 0);
  }
  for (size_t place = 0; place < content.line.size(); ++place) {
    if (content.line[place] == question.node) break;
    consider(content.line[place], static_cast<int64_t>(place));
  }
  const size_t count = std::min(able.size(), config_.max_peers);
  std::partial_sort(able.begin(), able.begin() + static_cast<std::ptrdiff_t>(count), able.end());
  std::vector<ChosenPeer> chosen;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = std::get<3>(able[i]);
    chosen.push_back({name, nodes_.at(name).address});
  }
  if (!chosen.empty()) Send(own, chosen.front().node);
  return chosen;
}

bool PeerDirectory::ReportWrong(const std::string& digest, const std::string& node, BootTime now) {
  Expire(now);
  const auto content = contents_.find(digest);
  if (content == contents_.end() || content->second.copies.count(node) == 0) return false;
  return content->second.wrong.emplace(node, now).second;
}

bool PeerDirectory::Has(const std::string& node, const std::string& digest, BootTime now) const {
  const auto content = contents_.find(digest);
  if (content == contents_.end()) return false;
  const auto copy = content->second.copies.find(node);
  return copy != content->second.copies.end() && Lives(copy->second, now);
}

std::vector<PeerDirectory::KnownCopy> PeerDirectory::Copies(const std::string& digest,
                                                            BootTime now) const {
  std::vector<KnownCopy> known;
  const auto content = contents_.find(digest);
  if (content == contents_.end()) return known;
  for (const auto& [node, copy] : content->second.copies) {
    if (!Lives(copy, now)) continue;
    const double seconds = absl::ToDoubleSeconds(copy.heard - copy.begun);
    const double rate =
        copy.copy.whole || seconds <= 0
            ? 0
            : static_cast<double>(copy.copy.have_bytes - copy.begun_bytes) / seconds;
    known.push_back({node, copy.copy, copy.source, rate, content->second.wrong.count(node) != 0});
  }
  return known;
}

}  // namespace capstan::data_loader
