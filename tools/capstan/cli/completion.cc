#include "tools/capstan/cli/completion.h"

#include <algorithm>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/completion_script.h"
#include "tools/capstan/cli/output_format.h"
#include "tools/capstan/cli/permissions.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;

constexpr size_t kMaxDescription = 80;

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// The option that `name` (with its dashes) stands for, of the command or of one above it.
const CLI::Option* FindOption(const CLI::App* app, const std::string& name) {
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options(nullptr)) {
      if (!option->get_positional() && option->check_name(name)) return option;
    }
  }
  return nullptr;
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->check_name(name)) return command;
  }
  return nullptr;
}

std::string LongName(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return option.get_lnames().front();
  return option.get_snames().empty() ? "" : option.get_snames().front();
}

// CLI11 puts what its checks are about behind the placeholder: `TEXT:DIR`, `NUMBER:INT in [1 - 9]`.
std::string PlaceholderOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  for (const char* kind : {"DIR", "FILE"}) {
    if (absl::EndsWith(type, absl::StrCat(":", kind))) return kind;
  }
  return type.substr(0, type.find(':'));
}

// What was typed before the word at the cursor.
struct Typed {
  const CLI::App* app = nullptr;
  size_t positionals = 0;
  // Its value is at the cursor.
  const CLI::Option* pending = nullptr;
  bool only_positionals = false;
  std::map<std::string, std::string> options;
};

void ReadOption(const std::string& word, Typed* typed) {
  const size_t equals = word.find('=');
  const bool is_long = absl::StartsWith(word, "--");
  // `-ojson` is -o with its value.
  const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
  const CLI::Option* option = FindOption(typed->app, name);
  if (option == nullptr) return;
  std::string& value = typed->options[LongName(*option)];
  if (!TakesValue(*option)) return;
  if (is_long && equals != std::string::npos) {
    value = word.substr(equals + 1);
  } else if (!is_long && word.size() > 2) {
    value = word.substr(2);
  } else {
    typed->pending = option;
  }
}

Typed Read(const CLI::App& root, const std::vector<std::string>& words) {
  Typed typed;
  typed.app = &root;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (typed.pending != nullptr) {
      typed.options[LongName(*typed.pending)] = word;
      typed.pending = nullptr;
    } else if (!typed.only_positionals && word == "--") {
      typed.only_positionals = true;
    } else if (!typed.only_positionals && word.size() > 1 && word[0] == '-') {
      ReadOption(word, &typed);
    } else if (const CLI::App* command = typed.positionals == 0 && !typed.only_positionals
                                             ? FindCommand(*typed.app, word)
                                             : nullptr) {
      typed.app = command;
    } else {
      ++typed.positionals;
    }
  }
  return typed;
}

std::vector<Candidate> Words(const std::vector<std::string>& words) {
  std::vector<Candidate> candidates;
  for (const std::string& word : words) candidates.push_back({word, ""});
  return candidates;
}

std::vector<Candidate> JobStates() {
  std::vector<Candidate> candidates;
  for (int i = 1; i < Job::State_descriptor()->value_count(); ++i) {
    const std::string& name = Job::State_descriptor()->value(i)->name();
    candidates.push_back({absl::AsciiStrToLower(name.substr(sizeof("STATE_") - 1)), ""});
  }
  return candidates;
}

std::vector<Candidate> Formats() {
  std::vector<Candidate> candidates;
  for (const OutputWord& known : OutputWords()) candidates.push_back({known.word, known.meaning});
  return candidates;
}

// Values that a placeholder stands for, those of the platform apart.
const std::vector<Candidate>* FixedValues(const std::string& type) {
  static const auto* const values = new std::map<std::string, std::vector<Candidate>>{
      {"FORMAT", Formats()},
      {"STATE", JobStates()},
      {"ROLE",
       {{"admin", "everything"},
        {"operator", "Nodes, Queues, Clusters; sees all, submits nothing"},
        {"researcher", "submits and cancels Jobs, keeps data"},
        {"viewer", "sees Jobs and data"}}},
      {"FIGURE", Words({"rank", "cpu", "memory"})},
      {"PLACE",
       {{"oldest", "the oldest record that is kept"}, {"newest", "what comes from now on"}}},
      {"TOPIC", Words({"output", "exit-codes", "environment"})},
      {"SHELL", Words(CompletionShells())},
      {"VERB", Words(PermissionVerbs())},
      {"RESOURCE", Words(PermissionResources())},
  };
  const auto it = values->find(type);
  return it == values->end() ? nullptr : &it->second;
}

// Collects what begins with the word at the cursor.
class Collector {
 public:
  Collector(std::string current, const NameSource& names)
      : current_(std::move(current)), names_(names) {}

  void Add(const std::string& word, const std::string& description) {
    if (absl::StartsWith(word, current_)) completion_.candidates.push_back({word, description});
  }

  // `before` stays before the value, as in `--queue=`.
  void AddValues(const CLI::Option& option, const std::string& before, const Typed& typed) {
    const std::string type = PlaceholderOf(option);
    if (const std::vector<Candidate>* fixed = FixedValues(type)) {
      for (const Candidate& value : *fixed) Add(before + value.word, value.description);
    } else if (type == "FILE" || type == "DIR") {
      completion_.fallback =
          type == "FILE" ? Completion::Fallback::kFiles : Completion::Fallback::kFolders;
    } else if (names_ != nullptr) {
      std::vector<Candidate> found = names_(type, typed.options);
      std::sort(found.begin(), found.end(),
                [](const Candidate& a, const Candidate& b) { return a.word < b.word; });
      for (const Candidate& name : found) Add(before + name.word, name.description);
    }
  }

  void AddOptions(const CLI::App* app) {
    for (; app != nullptr; app = app->get_parent()) {
      for (const CLI::Option* option : app->get_options(nullptr)) {
        // Those of no group are hidden.
        if (option->get_positional() || option->get_group().empty()) continue;
        for (const std::string& name : option->get_lnames()) {
          Add("--" + name, option->get_description());
        }
        if (!option->get_lnames().empty()) continue;
        for (const std::string& name : option->get_snames()) {
          Add("-" + name, option->get_description());
        }
      }
    }
  }

  void AddCommands(const CLI::App& app) {
    for (const CLI::App* command : app.get_subcommands(nullptr)) {
      if (!command->get_group().empty()) Add(command->get_name(), command->get_description());
    }
  }

  Completion Take() { return std::move(completion_); }

 private:
  const std::string current_;
  const NameSource& names_;
  Completion completion_;
};

const CLI::Option* Positional(const CLI::App& app, size_t index) {
  for (const CLI::Option* option : app.get_options(nullptr)) {
    if (!option->get_positional()) continue;
    if (index == 0) return option;
    --index;
  }
  return nullptr;
}

// One line, not too long.
std::string Shown(const std::string& description) {
  std::string line = WithoutControls(description);
  std::replace(line.begin(), line.end(), '\t', ' ');
  if (line.size() <= kMaxDescription) return line;
  size_t end = kMaxDescription;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  return line.substr(0, end) + "…";
}

}  // namespace

Completion Complete(const CLI::App& root, const std::vector<std::string>& words,
                    const NameSource& names) {
  const std::string current = words.empty() ? "" : words.back();
  const Typed typed = Read(root, words);
  Collector collector(current, names);
  if (typed.pending != nullptr) {
    collector.AddValues(*typed.pending, "", typed);
    return collector.Take();
  }
  if (!typed.only_positionals && absl::StartsWith(current, "-")) {
    const size_t equals = current.find('=');
    if (equals == std::string::npos) {
      collector.AddOptions(typed.app);
    } else if (const CLI::Option* option = FindOption(typed.app, current.substr(0, equals))) {
      if (TakesValue(*option)) collector.AddValues(*option, current.substr(0, equals + 1), typed);
    }
    return collector.Take();
  }
  if (typed.positionals == 0) collector.AddCommands(*typed.app);
  if (const CLI::Option* option = Positional(*typed.app, typed.positionals)) {
    collector.AddValues(*option, "", typed);
  }
  return collector.Take();
}

std::string FormatCompletion(const Completion& completion) {
  std::string out;
  for (const Candidate& candidate : completion.candidates) {
    // A name that would break the protocol is no name of ours.
    if (WithoutControls(candidate.word) != candidate.word) continue;
    absl::StrAppend(&out, candidate.word);
    if (!candidate.description.empty()) absl::StrAppend(&out, "\t", Shown(candidate.description));
    absl::StrAppend(&out, "\n");
  }
  switch (completion.fallback) {
    case Completion::Fallback::kNone:
      return out + ":none\n";
    case Completion::Fallback::kFiles:
      return out + ":files\n";
    case Completion::Fallback::kFolders:
      return out + ":folders\n";
  }
  return out;
}

}  // namespace capstan::cli
