// Looks for secrets in whatever a platform leaves behind or shows, also in other forms than their
// own.
#ifndef CAPSTAN_INTEGRATION_SECRETS_SECRET_SCAN_H_
#define CAPSTAN_INTEGRATION_SECRETS_SECRET_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::integration {

// Something that only its holders may know.
struct Secret {
  // For people: `key of scheduler`.
  std::string name;
  // At least 16 bytes, which nothing else holds by chance.
  std::string value;
  // Places where it may be, as fnmatch(3) has it; `*` goes over `/`.
  std::vector<std::string> homes;
};

// Where a secret was seen.
struct Sighting {
  std::string secret;
  std::string place;
  // Of the first time: `raw`, `hex`, `base64`, …
  std::string form;
  bool at_home = false;
  // In a file that others than its owner can open.
  bool open_to_others = false;
};

// Finds every run of 16 bytes of a secret: as it is, in hex (also with colons), in base64 of both
// alphabets at any alignment, percent-encoded, escaped as C and protobuf's text do it, and each of
// these across white space, as PEM and dumps have it. What the scheduler has recorded is
// decompressed and looked through too; other compressed bytes, and encrypted ones, hide it. For one
// thread.
class SecretScan {
 public:
  // `value` shorter than 16 bytes is a mistake of the test, and ends it.
  void Add(Secret secret);

  void Look(const std::string& place, absl::string_view bytes) { Look(place, bytes, false); }
  // A file's bytes; of a SQLite file each value too, which may lie in several pages, and of a
  // recording what was compressed. What can't be read, since it went meanwhile, is left out.
  // `root`: above it who may pass is not asked.
  void LookAtFile(const std::string& place, const std::string& path, const std::string& root = "");
  // Each regular file below, as `<place>/<path below>`. Links are not followed, their targets are
  // looked at as text, and so are names.
  void LookAtFolder(const std::string& place, const std::string& folder);
  // Arguments and environment of all processes of the machine but this one, as `argv of <comm>` and
  // `environment of <comm>`; `environment of Task <comm>` where a Task's variables are in it.
  void LookAtProcesses();

  // By secret and place.
  std::vector<Sighting> Sightings() const;
  // One a line; empty if each was at home.
  std::string Strays() const;
  // Those at home that others than its owner can open.
  std::string OpenHomes() const;
  bool Saw(const std::string& secret, const std::string& place_pattern) const;
  size_t places() const { return places_; }
  int64_t bytes() const { return bytes_; }

 private:
  // A form of a piece of a secret.
  struct Needle {
    std::string text;
    size_t secret;
    const char* form;
  };

  void AddNeedles(size_t secret, const char* form, std::string text);
  void Look(const std::string& place, absl::string_view bytes, bool open_to_others);
  void Find(const std::string& place, absl::string_view bytes, bool open_to_others);
  void LookBelow(const std::string& place, const std::string& root, const std::string& folder,
                 const std::string& below);
  void LookAtRows(const std::string& place, const std::string& path, bool open_to_others);

  std::vector<Secret> secrets_;
  std::vector<Needle> needles_;
  // By the first eight bytes.
  std::unordered_map<uint64_t, std::vector<size_t>> index_;
  // Which hashes of eight bytes `index_` may have.
  std::vector<bool> maybe_;
  std::map<std::pair<size_t, std::string>, Sighting> sightings_;
  size_t places_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_SECRET_SCAN_H_
