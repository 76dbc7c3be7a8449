// Content as peers and uploads send it, whole, in pieces, of something else, and again after the
// receiver's death: what is complete is what the manifest says, and nothing else is in the folder.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/content/content_reader.h"
#include "libs/content/content_writer.h"
#include "libs/digest/sha256.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace {

using capstan::SafeRoot;
using capstan::Sha256;
using capstan::content::ContentReader;
using capstan::content::ContentWriter;
using capstan::dataloader::v1::Manifest;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;

constexpr const char* kPaths[] = {"a", "b/c", "b/d/e", "f"};

struct Content {
  Manifest manifest;
  // All bytes, file after file.
  std::string bytes;
  // Whether each digest is that of the bytes.
  bool honest = true;
};

Content MakeContent(FuzzInput* input) {
  Content content;
  for (size_t i = 0, count = input->Below(std::size(kPaths) + 1); i < count; ++i) {
    const std::string bytes(input->Bytes(40));
    const bool honest = input->Below(8) != 1;
    Manifest::File& file = *content.manifest.add_files();
    file.set_path(kPaths[i]);
    file.set_size_bytes(static_cast<int64_t>(bytes.size()));
    file.set_sha256(honest ? Sha256::Of(bytes) : std::string(32, 'x'));
    content.honest &= honest;
    content.bytes += bytes;
  }
  return content;
}

void CheckWhole(const SafeRoot& root, const Content& content) {
  Require(content.honest);
  std::vector<std::string> paths;
  for (const Manifest::File& file : content.manifest.files()) paths.push_back(file.path());
  const absl::StatusOr<std::vector<std::string>> found = root.ListFiles("");
  Require(found.ok() && *found == paths);
  absl::StatusOr<SafeRoot> folder = SafeRoot::Open(root.path());
  Require(folder.ok());
  ContentReader reader(*std::move(folder), content.manifest);
  const absl::StatusOr<std::string> read = reader.Read(0, content.bytes.size() + 1);
  Require(read.ok() && *read == content.bytes);
}

// One message of whoever sends.
void Receive(const Content& content, ContentWriter* writer, FuzzInput* input) {
  const int64_t total = static_cast<int64_t>(content.bytes.size());
  const int64_t before = writer->offset();
  const size_t size = input->Below(64);
  const std::string piece =
      input->Below(4) == 1
          ? std::string(input->Bytes(size))
          : content.bytes.substr(static_cast<size_t>(before),
                                 std::min(size, static_cast<size_t>(total - before)));
  const absl::Status written = writer->Write(piece);
  Require(writer->offset() >= 0 && writer->offset() <= total);
  Require(writer->complete() == writer->path().empty());
  if (written.ok()) {
    Require(writer->offset() == before + static_cast<int64_t>(piece.size()));
  } else {
    Require(absl::IsDataLoss(written) || absl::IsOutOfRange(written) ||
            absl::IsInvalidArgument(written));
    Require(!absl::IsOutOfRange(written) || writer->complete());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const Content content = MakeContent(&input);
  const capstan::fuzzing::FuzzFolder folder;
  const absl::StatusOr<SafeRoot> root = SafeRoot::Open(folder.path());
  Require(root.ok());
  const std::atomic<bool> stop = false;
  std::unique_ptr<ContentWriter> writer;
  do {
    if (writer == nullptr || input.Below(8) == 1) {
      // Another life, which was told anything about the one before.
      writer = nullptr;
      const int64_t from = static_cast<int64_t>(input.Below(200));
      absl::StatusOr<std::unique_ptr<ContentWriter>> opened =
          ContentWriter::Open(&*root, &content.manifest, from, stop);
      if (!opened.ok()) {
        // An empty file with a digest of something.
        Require(!content.honest && absl::IsInvalidArgument(opened.status()));
        return 0;
      }
      writer = *std::move(opened);
      Require(writer->offset() <= from);
    } else {
      Receive(content, writer.get(), &input);
    }
    if (writer->complete()) CheckWhole(*root, content);
  } while (!input.empty());
  return 0;
}
