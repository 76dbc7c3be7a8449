#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_MAN_PAGE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_MAN_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace CLI {
class App;
}  // namespace CLI

namespace capstan::cli {

// One page of the manual, in the man(7) macros.
struct ManPage {
  // `capstan-job-list.1`.
  std::string file;
  std::string text;
};

// A page for the program and one for each command that is not hidden, in the order of the help.
// `date` is the one that the pages bear. The same tree and date give the same pages.
std::vector<ManPage> ManPages(const CLI::App& root, absl::Time date);

// `text` as roff has it: no byte of it is taken for a request or an escape.
std::string RoffText(absl::string_view text);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_MAN_PAGE_H_
