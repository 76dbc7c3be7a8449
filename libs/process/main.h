#ifndef CAPSTAN_LIBS_PROCESS_MAIN_H_
#define CAPSTAN_LIBS_PROCESS_MAIN_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "libs/process/process.h"
#include "libs/time/clock.h"
#include "proto/capstan/config/v1/process.pb.h"

namespace capstan::process {

// A program that serves one part of the platform: `<name>_main --config FILE`.
struct Program {
  std::string name;
  // What it serves, a line of help.
  std::string purpose;
  // True for credentials: it may be started by a supervisor that asks it for join tokens.
  bool is_supervised = false;
  std::function<std::unique_ptr<google::protobuf::Message>()> make;
  std::function<absl::Status(const google::protobuf::Message&)> check;
  std::function<const config::v1::Process&(const google::protobuf::Message&)> process_of;
  std::function<absl::Status(const google::protobuf::Message&, const StartOptions&, const Clock*)>
      run;
};

// Of a service's own types. `Config` has a field `process`.
template <typename Config>
Program MakeProgram(const std::string& name, const std::string& purpose,
                    absl::Status (*check)(const Config&),
                    absl::Status (*run)(const Config&, const StartOptions&, const Clock*),
                    bool is_supervised = false) {
  using google::protobuf::Message;
  Program program;
  program.name = name;
  program.purpose = purpose;
  program.is_supervised = is_supervised;
  program.make = [] { return std::make_unique<Config>(); };
  program.check = [check](const Message& config) {
    return check(static_cast<const Config&>(config));
  };
  program.process_of = [](const Message& config) -> const config::v1::Process& {
    return static_cast<const Config&>(config).process();
  };
  program.run = [run](const Message& config, const StartOptions& options, const Clock* clock) {
    return run(static_cast<const Config&>(config), options, clock);
  };
  return program;
}

// Reads `file` and checks it as a whole. INVALID_ARGUMENT with every problem and its line.
absl::StatusOr<std::unique_ptr<google::protobuf::Message>> ReadConfig(const Program& program,
                                                                      const std::string& file);

// Runs the program with what `file` says, until a signal; reads it again on SIGHUP. Must be called
// before any thread is made. `options.reload` is set here.
absl::Status RunProgram(const Program& program, const std::string& file, StartOptions options,
                        const Clock* clock);

// A whole main(): flags, file, run. The exit code: 0, 2 for a wrong command line, 3 for a wrong
// file, 77 without an identity or a join token, 1 for everything else. With --check-config it
// starts nothing. Ends as lifecycle::EndProcess does.
[[noreturn]] void Main(int argc, char** argv, const Program& program);

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_MAIN_H_
