#ifndef CAPSTAN_LIBS_CONTENT_MANIFEST_H_
#define CAPSTAN_LIBS_CONTENT_MANIFEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::content {

// Bounds of one manifest.
inline constexpr int64_t kMaxManifestFiles = 1'000'000;
// Of all its files; so that sums of a few manifests fit into an int64.
inline constexpr int64_t kMaxContentBytes = int64_t{1} << 56;

// The canonical bytes of a manifest, from which its digest is made: for each file, sorted by path,
// one line `<sha256 hex> <size> <x or -> <path>\n`. Independent of protobuf's encoding, and can be
// checked by hand.
std::string CanonicalForm(const capstan::dataloader::v1::Manifest& manifest);

// `sha256:<hex>` of the canonical form.
std::string ManifestDigest(const capstan::dataloader::v1::Manifest& manifest);

// The 64 hex digits of `sha256:<hex>`; INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> DigestHex(absl::string_view digest);

// Version id of a digest: its first 16 hex digits.
std::string VersionId(absl::string_view digest);

// Checks a manifest from outside: sorted by path without twins, safe paths, sizes not negative,
// digests of 32 bytes, at most kMaxManifestFiles of together kMaxContentBytes.
absl::Status CheckManifest(const capstan::dataloader::v1::Manifest& manifest);

// Of a manifest that was checked.
int64_t TotalBytes(const capstan::dataloader::v1::Manifest& manifest);

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_MANIFEST_H_
