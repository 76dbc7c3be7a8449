#include "libs/kube/objects/resource_type.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace capstan::kube {
namespace {

// A segment of one or two dots is no name but a way; escaped dots are taken for the same by some
// that normalise, hence it is made one that no object can have.
std::string Segment(absl::string_view text) {
  if (text.empty() || text == "." || text == "..") return "%00";
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' ||
        c == '~') {
      escaped += c;
    } else {
      absl::StrAppend(&escaped, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return escaped;
}

}  // namespace

std::string ApiVersion(const ResourceType& type) {
  return type.group.empty() ? type.version : absl::StrCat(type.group, "/", type.version);
}

std::string CollectionPath(const ResourceType& type, absl::string_view ns) {
  std::string path = type.group.empty()
                         ? absl::StrCat("/api/", Segment(type.version))
                         : absl::StrCat("/apis/", Segment(type.group), "/", Segment(type.version));
  if (type.namespaced && !ns.empty()) absl::StrAppend(&path, "/namespaces/", Segment(ns));
  return absl::StrCat(path, "/", Segment(type.plural));
}

std::string ObjectPath(const ResourceType& type, absl::string_view ns, absl::string_view name,
                       absl::string_view subresource) {
  std::string path = absl::StrCat(CollectionPath(type, ns), "/", Segment(name));
  if (!subresource.empty()) absl::StrAppend(&path, "/", Segment(subresource));
  return path;
}

}  // namespace capstan::kube
