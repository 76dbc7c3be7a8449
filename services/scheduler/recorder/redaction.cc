#include "services/scheduler/recorder/redaction.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/session/lower_side.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {
namespace {

namespace rec = ::capstan::scheduler::records::v1;

constexpr int kKeyBytes = 32;

void Mask(std::string* text) { std::fill(text->begin(), text->end(), 'x'); }

// Of a TaskGroup or a TaskLaunch.
template <typename Message>
void MaskProgram(Message* message) {
  for (std::string& argument : *message->mutable_argv()) Mask(&argument);
  for (auto& [name, value] : *message->mutable_env()) Mask(&value);
}

}  // namespace

Redaction Redaction::Fresh() {
  std::string key(kKeyBytes, '\0');
  // Fails only where there is no source of randomness, without which nothing here works.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), kKeyBytes) != 1) std::abort();
  return Redaction(std::move(key));
}

std::string Redaction::Hash(absl::string_view hash) const {
  if (key_.empty() || hash.empty()) return std::string(hash);
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
       reinterpret_cast<const unsigned char*>(hash.data()), hash.size(),
       reinterpret_cast<unsigned char*>(out.data()), &size);
  out.resize(size);
  return out;
}

void Redaction::Redact(capstan::scheduler::v1::JobSpec* spec) {
  for (auto& group : *spec->mutable_task_groups()) MaskProgram(&group);
}

void Redaction::Redact(capstan::type::v1::SessionDown* message) {
  if (!message->has_desired()) return;
  for (auto& task : *message->mutable_desired()->mutable_tasks()) {
    if (task.has_launch()) MaskProgram(task.mutable_launch());
  }
}

std::string Redaction::Record(absl::string_view key, absl::string_view value) const {
  static const auto& kSpecs = *new std::string(absl::StrCat(kKeyPrefix, "jobs/spec/"));
  static const auto& kRequests = *new std::string(absl::StrCat(kKeyPrefix, "requests/"));
  if (absl::StartsWith(key, kSpecs)) {
    rec::JobSpecRecord record;
    if (!record.ParseFromArray(value.data(), static_cast<int>(value.size()))) return "";
    Redact(record.mutable_spec());
    return session::SerializeDeterministic(record);
  }
  if (absl::StartsWith(key, kRequests)) {
    rec::RequestRecord record;
    if (!record.ParseFromArray(value.data(), static_cast<int>(value.size()))) return "";
    record.set_body_hash(Hash(record.body_hash()));
    return session::SerializeDeterministic(record);
  }
  return std::string(value);
}

}  // namespace capstan::scheduler
