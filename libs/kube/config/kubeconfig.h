// kubeconfig files (v1, kind Config), read and merged as kubectl does it. Pure: the texts are
// given, and files that they name are not opened.
#ifndef CAPSTAN_LIBS_KUBE_CONFIG_KUBECONFIG_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_KUBECONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/config/document.h"
#include "libs/kube/config/client_config.h"

namespace capstan::kube {

struct KubeconfigFile {
  // Absolute; relative paths in the file begin at its folder.
  std::string path;
  std::string text;
};

// In place of what the files choose; empty: as they do.
struct KubeconfigOverrides {
  std::string context;
  std::string cluster;
  std::string user;
  std::string namespace_name;
};

// What a kubeconfig says of one cluster and one user.
struct KubeconfigChoice {
  // Without ca_pem if it is in a file, and without the content of other files.
  ClientConfig config;
  // Absolute, where the CA is in a file, and how to name it in an error.
  std::string ca_path;
  std::string ca_field;
};

// Several files as one. A value.
//
// Like kubectl: unknown fields mean nothing; the first file that has a context, cluster or user of
// a name gives all of it, what others say of it is not looked at; the first current-context that is
// set counts. A name twice in one file is an error. Unlike kubectl, what is not chosen is not
// checked, and these are refused: anchors, tags, a key twice in one mapping, a user or cluster that
// is named and not there, `server` without a scheme, credentials for a plain `http` server, plugins
// that insist on a terminal.
class Kubeconfig {
 public:
  // INVALID_ARGUMENT, reason KUBE_BAD_CONFIG, with a line
  // `<file>:<line>:<column>: <field>: <problem>` for each of all files' problems; never a value.
  static absl::StatusOr<Kubeconfig> Merge(const std::vector<KubeconfigFile>& files);

  // Empty if none is set.
  const std::string& current_context() const { return current_context_; }
  // Names, in the order of the files.
  std::vector<std::string> contexts() const;
  // Nothing is chosen: no current-context, and `overrides` names no context and no cluster.
  bool ChoosesNothing(const KubeconfigOverrides& overrides) const {
    return current_context_.empty() && overrides.context.empty() && overrides.cluster.empty();
  }

  // FAILED_PRECONDITION, reason KUBE_NO_CONTEXT, if nothing is chosen; NOT_FOUND, reason
  // KUBE_NOT_IN_CONFIG, if a context, cluster or user that is named is in no file; else as Merge.
  absl::StatusOr<KubeconfigChoice> Choose(const KubeconfigOverrides& overrides) const;

 private:
  struct Entry {
    std::string name;
    std::string file;
    // Path of `value`, e.g. `clusters[1].cluster`.
    std::string field;
    config::Document value;
  };

  static const Entry* Find(const std::vector<Entry>& entries, absl::string_view name);
  absl::Status NotFound(absl::string_view kind, absl::string_view name, absl::string_view named_by,
                        const std::vector<Entry>& entries) const;

  std::vector<std::string> files_;
  std::string current_context_;
  std::vector<Entry> contexts_;
  std::vector<Entry> clusters_;
  std::vector<Entry> users_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_KUBECONFIG_H_
