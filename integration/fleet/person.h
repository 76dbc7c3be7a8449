#ifndef CAPSTAN_INTEGRATION_FLEET_PERSON_H_
#define CAPSTAN_INTEGRATION_FLEET_PERSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {

// Someone who runs the CLI over and over beside a test: writes, and reads of each service, each
// with 30 s for its retries. The platform must run and outlive it.
class Person {
 public:
  struct Command {
    std::string name;
    int exit_code = 0;
    double seconds = 0;
  };
  // The names of a round's commands.
  static constexpr int kKinds = 6;

  explicit Person(TestPlatform* platform);

  // Commands that have ended.
  int64_t Count() const;
  // The last that was printed to standard error.
  std::string Errors() const;
  // Lets the last round end.
  std::vector<Command> Finish();

 private:
  TestPlatform* const platform_;
  const std::string record_;
  const std::string stop_;
  absl::optional<dev::Child> child_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_FLEET_PERSON_H_
