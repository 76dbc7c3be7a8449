// Measures whole platforms on this machine: ./dev bench platform. See README.md.
//
//   platform [--smoke] [--only NAME,NAME…]
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "integration/bench/bench.h"
#include "integration/bench/suite.h"
#include "libs/rpc/callback_threads.h"
#include "libs/time/system_clock.h"

int main(int argc, char** argv) {
  using namespace capstan;  // NOLINT(google-build-using-namespace)
  bench::SuiteOptions options;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--smoke") {
      options.smoke = true;
    } else if (argument == "--only" && i + 1 < argc) {
      const std::vector<std::string> names = absl::StrSplit(argv[++i], ',');
      options.only = names;
    } else {
      std::fprintf(stderr, "usage: platform [--smoke] [--only %s]\n", bench::SuiteNames().c_str());
      return 2;
    }
  }
  rpc::KeepCallbackThreads();
  const SystemClock clock;
  return bench::RunSuite(options, &clock);
}
