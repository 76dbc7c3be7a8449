#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_COMPLETION_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_COMPLETION_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace capstan::cli {

// What a shell may put in place of the word at the cursor.
struct Candidate {
  std::string word;
  // For people; may be empty.
  std::string description;
};

// Names of resources, asked of the platform. `type` is a placeholder of the help: JOB, NODE, QUEUE,
// PROJECT, DATASET, LOAD, CLUSTER or BINDING; `options` are those typed before the cursor, by their
// long names without dashes (`project`, `data-dir`), a flag with the value "".
using NameSource = std::function<std::vector<Candidate>(
    const std::string& type, const std::map<std::string, std::string>& options)>;

struct Completion {
  enum class Fallback { kNone, kFiles, kFolders };
  // Those that begin with what is typed, in the order of the help; names sorted.
  std::vector<Candidate> candidates;
  // What the shell itself should offer besides.
  Fallback fallback = Fallback::kNone;
};

// What fits at the end of `words`: all words after the program's name, the last one, perhaps empty,
// being the one at the cursor. Knows commands, options and their values from the tree itself; what
// a word stands for is told by the placeholder in the help. `names` is asked once at most.
Completion Complete(const CLI::App& root, const std::vector<std::string>& words,
                    const NameSource& names);

// What `capstan __complete` prints: a line for each candidate, word and description separated by a
// tab, then one of `:none`, `:files` and `:folders`.
std::string FormatCompletion(const Completion& completion);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_COMPLETION_H_
