#include "services/credentials/adapters/supervisor_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/status/error.h"

namespace capstan::credentials {
namespace {

constexpr size_t kMaxPacket = 4096;
constexpr absl::string_view kQuestion = "token ";

std::string Error(absl::string_view path, absl::string_view sentence) {
  std::string message = absl::StrCat("error ", path, " ", absl::CHexEscape(sentence));
  message.resize(std::min(message.size(), kMaxPacket));
  return message;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SupervisorChannel>> SupervisorChannel::Start(Options options) {
  std::unique_ptr<SupervisorChannel> channel(new SupervisorChannel(std::move(options)));
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(channel->options_.fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_SEQPACKET) {
    return status::Error(absl::StatusCode::kInvalidArgument, "SUPERVISOR_FD",
                         absl::StrCat("Descriptor ", channel->options_.fd,
                                      " is not a socket of type SOCK_SEQPACKET."));
  }
  if (!channel->Send(channel->options_.ready)) {
    return status::Error(absl::StatusCode::kUnavailable, "SUPERVISOR_FD",
                         absl::StrCat("The supervisor does not listen: ", strerror(errno)));
  }
  channel->thread_ = std::thread([raw = channel.get()] { raw->Loop(); });
  return channel;
}

SupervisorChannel::~SupervisorChannel() {
  // Wakes the thread from recv.
  shutdown(options_.fd, SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  close(options_.fd);
}

void SupervisorChannel::Loop() {
  pthread_setname_np(pthread_self(), "supervisor");
  for (;;) {
    std::string packet(kMaxPacket, '\0');
    const ssize_t size = recv(options_.fd, packet.data(), packet.size(), MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    if (static_cast<size_t>(size) > kMaxPacket) {
      if (!Send(Error("-", "The question is too long."))) return;
      continue;
    }
    packet.resize(static_cast<size_t>(size));
    if (!Send(AnswerTo(packet))) return;
  }
}

std::string SupervisorChannel::AnswerTo(const std::string& question) {
  if (!absl::StartsWith(question, kQuestion)) {
    return Error("-", "The question is not `token <path>`.");
  }
  const std::string path = question.substr(kQuestion.size());
  // Only a path that is on the list is repeated in an answer.
  if (options_.paths.count(path) == 0) return Error("-", "The path is not a supervised one.");
  absl::StatusOr<std::string> token = absl::UnavailableError("no answer");
  absl::Notification answered;
  options_.make_token(path, [&](absl::StatusOr<std::string> made) {
    token = std::move(made);
    answered.Notify();
  });
  answered.WaitForNotification();
  if (!token.ok()) return Error(path, token.status().message());
  return absl::StrCat("token ", path, " ", *token);
}

bool SupervisorChannel::Send(const std::string& message) const {
  ssize_t sent;
  do {
    sent = send(options_.fd, message.data(), message.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

}  // namespace capstan::credentials
