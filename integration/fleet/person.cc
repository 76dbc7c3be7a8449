#include "integration/fleet/person.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace capstan::integration {

Person::Person(TestPlatform* platform)
    : platform_(platform),
      record_(platform->folder() + "/commands"),
      stop_(platform->folder() + "/enough") {
  const std::string buckets = platform->data_dir() + "/buckets";
  mkdir(buckets.c_str(), 0700);
  std::ofstream(buckets + "/object") << "content";
  // A command and what it prints on an error; its budget of retries is its --time-out.
  const std::string capstan = absl::StrJoin(platform->CommandLine({}), " ");
  const std::string script = platform->folder() + "/person.sh";
  std::ofstream(script) << "run() {\n  local begun=$EPOCHREALTIME name=\"$1\" code; shift\n  "
                        << capstan << " --time-out 30s \"$@\" >/dev/null; code=$?\n"
                        << "  echo \"$name $code $begun $EPOCHREALTIME\" >>" << record_ << "\n}\n"
                        << "for ((i = 0; ; ++i)); do\n  [[ -e " << stop_ << " ]] && exit 0\n"
                        << "  run queue-create queue create \"q-$i\"\n"
                        << "  run dataset-create dataset create \"d-$i\" --source " << buckets
                        << "\n  run job-list job list\n  run dataset-list dataset list\n"
                        << "  run cluster-list cluster list\n"
                        << "  run can-i access can-i create jobs\ndone\n";
  dev::SpawnOptions spawn;
  spawn.argv = {"/bin/bash", script};
  spawn.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent"};
  spawn.output_file = platform->folder() + "/person.err";
  auto child = dev::Child::Spawn(spawn);
  EXPECT_TRUE(child.ok()) << child.status();
  if (child.ok()) child_.emplace(*std::move(child));
}

int64_t Person::Count() const {
  std::ifstream in(record_);
  return std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
}

std::string Person::Errors() const {
  std::ifstream in(platform_->folder() + "/person.err");
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return all.substr(all.size() < 2000 ? 0 : all.size() - 2000);
}

std::vector<Person::Command> Person::Finish() {
  std::ofstream stop(stop_);
  stop.close();
  if (child_.has_value()) waitpid(child_->id().pid, nullptr, 0);
  std::ifstream in(record_);
  std::vector<Command> commands;
  Command one;
  double begun = 0;
  double ended = 0;
  while (in >> one.name >> one.exit_code >> begun >> ended) {
    one.seconds = ended - begun;
    commands.push_back(one);
  }
  return commands;
}

}  // namespace capstan::integration
