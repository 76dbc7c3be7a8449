// What any server of the Kubernetes API that is reached by a Transport has to do: cases that run on
// the fake and on kube-apiserver, so that the fake is known to tell the truth.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_API_CONFORMANCE_H_
#define CAPSTAN_LIBS_KUBE_TESTING_API_CONFORMANCE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube::testing {

struct ConformanceTarget {
  // With all rights. Must outlive the run.
  Transport* transport = nullptr;
  // Names of this run's namespaces begin with it; another one for each run against one server.
  std::string prefix = "conformance";
  // Of a simulated server: does the next thing, and returns false if there is nothing to do. Empty:
  // the transport has threads of its own.
  std::function<bool()> pump;
  // The server forgets all that led to its present state, as after a compaction of etcd; calls may
  // break.
  std::function<void()> compact;
  // The server ends and begins anew with what was written; calls break.
  std::function<void()> restart;
  // For one answer or event.
  absl::Duration limit = absl::Seconds(30);
};

struct ConformanceCase {
  std::string name;
  // Garbage collection and the ends of namespaces: kube-controller-manager has to run.
  bool needs_controllers = false;
  // In the language below.
  std::string script;
};

// All, each independent of the others, in a namespace of its own.
std::vector<ConformanceCase> ConformanceCases();

// What was found to be otherwise, a sentence each with the line of the script; empty: it conforms.
//
// A script is of lines; those that begin with # are comments. ${name} is a variable: `ns` the
// case's namespace, `core`, `apps`, `coordination`, `policy` the paths of its collections
// (`/api/v1/namespaces/…`), and what was saved.
//   > METHOD PATH [merge|json|strategic|apply]   a request; lines that begin with { or [ are its
//   body = CODE [REASON]                              its answer ? POINTER VALUE a check of the
//   answer's JSON (RFC 6901): a value in
//                                                JSON, `absent`, `present`, `~text` contained,
//                                                `#n` members
//   ! NAME POINTER                               saves a value, text without quotes
//   - HEADER VALUE                               a header of the answer
//   w NAME PATH                                  opens a watch
//   e NAME TYPE                                  its next event, but for bookmarks that are not
//                                                asked for; checks then are of the event's object
//   x NAME                                       ends well, after bookmarks at most
//   c NAME                                       is closed by the client
//   s PATH                                       waits until a list of PATH is served
//   b NAME                                       breaks, or ends
//   k compact|restart                            what the target offers of this name
//   u CODE PATH                                  waits until a GET of an object has that code;
//                                                checks then are of its answer
std::vector<std::string> RunConformanceCase(const ConformanceCase& one,
                                            const ConformanceTarget& target);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_API_CONFORMANCE_H_
