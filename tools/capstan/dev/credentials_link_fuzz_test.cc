// What comes over the socket between credentials and its supervisor: a message means what it says,
// and since it may hold a secret, no error shows any of it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "tools/capstan/dev/credentials_link.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::dev::CredentialsMessage;
  using capstan::dev::ParseCredentialsMessage;
  using capstan::fuzzing::Require;
  const std::string packet(reinterpret_cast<const char*>(data), size);
  const auto message = ParseCredentialsMessage(packet);
  if (!message.ok()) {
    Require(message.status() == ParseCredentialsMessage("").status());
    return 0;
  }
  switch (message->kind) {
    case CredentialsMessage::Kind::kReady:
      Require(packet.rfind(absl::StrCat("ready ", message->trust_domain, " "), 0) == 0);
      Require(message->path.empty() && message->text.empty());
      break;
    case CredentialsMessage::Kind::kToken:
      Require(packet == absl::StrCat("token ", message->path, " ", message->text));
      Require(message->path[0] == '/' && message->text.find(' ') == std::string::npos);
      break;
    case CredentialsMessage::Kind::kError:
      Require(packet == absl::StrCat("error ", message->path, " ", message->text));
      Require(message->path[0] == '/');
      break;
  }
  return 0;
}
