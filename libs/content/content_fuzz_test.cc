// Manifests and journals as peers send and disks keep them: what is accepted has no way out of its
// folder, a canonical form that nothing else has, and a size that is one.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/content/manifest.h"
#include "libs/content/part_journal.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace {

using capstan::CheckRelativePath;
using capstan::SafeRoot;
using capstan::content::PartJournal;
using capstan::dataloader::v1::Manifest;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;

void CheckManifest(const Manifest& manifest) {
  const std::string form = capstan::content::CanonicalForm(manifest);
  if (!capstan::content::CheckManifest(manifest).ok()) return;
  Require(capstan::content::TotalBytes(manifest) >= 0);
  // Each line is one file, so that no path can stand for another file.
  const std::vector<absl::string_view> lines = absl::StrSplit(form, '\n');
  Require(lines.size() == static_cast<size_t>(manifest.files_size()) + 1 && lines.back().empty());
  for (const Manifest::File& file : manifest.files()) {
    Require(CheckRelativePath(file.path()).ok() && file.size_bytes() >= 0);
  }
  Require(capstan::content::DigestHex(capstan::content::ManifestDigest(manifest)).ok());
}

void CheckJournal(absl::string_view bytes) {
  const capstan::fuzzing::FuzzFolder folder;
  folder.Write("journal", bytes);
  const absl::StatusOr<SafeRoot> root = SafeRoot::Open(folder.path());
  Require(root.ok());
  std::set<PartJournal::PartKey> found;
  {
    absl::StatusOr<PartJournal> journal = PartJournal::Open(*root, "journal");
    Require(journal.ok() && journal->found().size() <= bytes.size() / 16);
    found = journal->found();
    Require(journal->Append({1, 2}).ok());
  }
  // What was torn is gone, and what was there is followed by what came.
  absl::StatusOr<PartJournal> again = PartJournal::Open(*root, "journal");
  found.insert({1, 2});
  Require(again.ok() && again->found() == found);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  switch (input.Below(4)) {
    case 0: {
      // Sums of 32 bytes and paths in order, to get beyond what is refused first.
      auto manifest = capstan::fuzzing::MakeMessage<Manifest>({"a", "b/c", "b\nd", "../e"}, &input);
      for (Manifest::File& file : *manifest.mutable_files()) file.set_sha256(std::string(32, 's'));
      CheckManifest(manifest);
      break;
    }
    case 1: {
      Manifest manifest;
      const absl::string_view bytes = input.Rest();
      if (manifest.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        CheckManifest(manifest);
      }
      break;
    }
    case 2: {
      const absl::string_view text = input.Rest();
      if (capstan::content::DigestHex(text).ok()) {
        Require(capstan::content::VersionId(text).size() == 16);
      }
      break;
    }
    default:
      CheckJournal(input.Rest());
  }
  return 0;
}
