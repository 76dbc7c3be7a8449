#include "libs/resource/etag.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "openssl/sha.h"

namespace capstan::resource {
namespace {

constexpr size_t kContentTagBytes = 8;

// entity-tag = [ "W/" ] DQUOTE *etagc DQUOTE, etagc = %x21 / %x23-7E / obs-text.
bool IsWellFormed(absl::string_view tag) {
  if (absl::StartsWith(tag, "W/")) tag.remove_prefix(2);
  if (tag.size() < 2 || tag.front() != '"' || tag.back() != '"') return false;
  for (const char c : tag.substr(1, tag.size() - 2)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x21 || byte == '"' || byte == 0x7f) return false;
  }
  return true;
}

}  // namespace

std::string MakeEtag(int64_t revision) { return absl::StrCat("\"r", revision, "\""); }

std::string MakeEtag(absl::string_view content) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest);
  return absl::StrCat("\"",
                      absl::BytesToHexString(absl::string_view(
                          reinterpret_cast<const char*>(digest), kContentTagBytes)),
                      "\"");
}

absl::Status CheckEtag(absl::string_view given, absl::string_view current) {
  if (given.empty()) return absl::OkStatus();
  if (!IsWellFormed(given)) {
    status::FieldErrors errors;
    errors.Add("etag", "is not an entity tag; give it as it was read, with its quotes");
    return errors.ToStatus();
  }
  // Strong comparison: a weak tag equals none.
  if (given != current || absl::StartsWith(given, "W/")) {
    return status::Error(absl::StatusCode::kAborted, "ETAG_MISMATCH",
                         "the resource has changed since it was read; read it again",
                         {{"given", std::string(given)}, {"current", std::string(current)}});
  }
  return absl::OkStatus();
}

}  // namespace capstan::resource
