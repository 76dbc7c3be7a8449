#include "libs/content/manifest.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

constexpr absl::string_view kPrefix = "sha256:";
constexpr size_t kVersionIdLength = 16;

absl::Status Invalid(const std::string& message) {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_MANIFEST", message);
}

}  // namespace

std::string CanonicalForm(const Manifest& manifest) {
  std::string form;
  for (const Manifest::File& file : manifest.files()) {
    absl::StrAppend(&form, absl::BytesToHexString(file.sha256()), " ", file.size_bytes(), " ",
                    file.executable() ? "x" : "-", " ", file.path(), "\n");
  }
  return form;
}

std::string ManifestDigest(const Manifest& manifest) {
  return absl::StrCat(kPrefix, absl::BytesToHexString(Sha256::Of(CanonicalForm(manifest))));
}

absl::StatusOr<std::string> DigestHex(absl::string_view digest) {
  const absl::string_view hex =
      digest.substr(0, kPrefix.size()) == kPrefix ? digest.substr(kPrefix.size()) : "";
  bool good = hex.size() == 64;
  for (const char c : hex) good = good && absl::ascii_isxdigit(c) && !absl::ascii_isupper(c);
  if (!good) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_DIGEST",
                         absl::StrCat("digest '", absl::CHexEscape(digest.substr(0, 100)),
                                      "' is not 'sha256:' and 64 lower-case hex digits"));
  }
  return std::string(hex);
}

std::string VersionId(absl::string_view digest) {
  return std::string(digest.substr(kPrefix.size(), kVersionIdLength));
}

absl::Status CheckManifest(const Manifest& manifest) {
  if (manifest.files_size() > kMaxManifestFiles) {
    return Invalid(
        absl::StrCat("has ", manifest.files_size(), " files; at most ", kMaxManifestFiles));
  }
  std::vector<std::string> paths;
  int64_t total = 0;
  paths.reserve(manifest.files_size());
  for (const Manifest::File& file : manifest.files()) {
    if (!paths.empty() && paths.back() >= file.path()) {
      return Invalid(
          absl::StrCat("files are not sorted by path at '", absl::CHexEscape(file.path()), "'"));
    }
    if (file.size_bytes() < 0) {
      return Invalid(absl::StrCat("size of '", absl::CHexEscape(file.path()), "' is negative"));
    }
    if (file.size_bytes() > kMaxContentBytes - total) {
      return Invalid(absl::StrCat("has more than ", kMaxContentBytes, " bytes at '",
                                  absl::CHexEscape(file.path()), "'"));
    }
    total += file.size_bytes();
    if (file.sha256().size() != Sha256::kSize) {
      return Invalid(absl::StrCat("sha256 of '", absl::CHexEscape(file.path()), "' has ",
                                  file.sha256().size(), " bytes; expected ", Sha256::kSize));
    }
    paths.push_back(file.path());
  }
  return CheckPathSet(paths);
}

int64_t TotalBytes(const Manifest& manifest) {
  int64_t total = 0;
  for (const Manifest::File& file : manifest.files()) total += file.size_bytes();
  return total;
}

}  // namespace capstan::content
