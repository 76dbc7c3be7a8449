#include "integration/platform/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

std::string ReadAndRemove(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  unlink(path.c_str());
  return text.str();
}

}  // namespace

CommandResult RunCommand(const std::vector<std::string>& argv,
                         const std::vector<std::string>& environment, const std::string& folder) {
  CommandResult result;
  std::string out = folder + "/out-XXXXXX";
  const int fd = mkstemp(out.data());
  if (fd < 0) {
    ADD_FAILURE() << "no file in " << folder;
    return result;
  }
  close(fd);
  dev::SpawnOptions spawn;
  spawn.argv = {"/bin/sh", "-c", "exec \"$@\" 2>\"$0\"", out + "-err"};
  spawn.argv.insert(spawn.argv.end(), argv.begin(), argv.end());
  spawn.environment = environment;
  spawn.output_file = out;
  const auto child = dev::Child::Spawn(spawn);
  int wait_status = 0;
  if (!child.ok() || waitpid(child->id().pid, &wait_status, 0) < 0) {
    ADD_FAILURE() << "cannot run " << argv.front() << ": " << child.status();
    return result;
  }
  // As a shell has it.
  result.exit_code =
      WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
  result.out = ReadAndRemove(out);
  result.err = ReadAndRemove(out + "-err");
  return result;
}

}  // namespace capstan::integration
