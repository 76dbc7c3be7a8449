#include "tools/capstan/cli/man_page.h"

#include <cstdint>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace capstan::cli {
namespace {

constexpr char kExamples[] = "Examples:";

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) shown.push_back(command);
  }
  return shown;
}

// Words from the program's name to the command's.
std::vector<std::string> PathOf(const CLI::App& app) {
  if (app.get_parent() == nullptr) return {"capstan"};
  std::vector<std::string> path = PathOf(*app.get_parent());
  path.push_back(app.get_name());
  return path;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string Italic(absl::string_view text) { return absl::StrCat("\\fI", RoffText(text), "\\fR"); }
std::string Bold(absl::string_view text) { return absl::StrCat("\\fB", RoffText(text), "\\fR"); }

std::string Placeholder(const CLI::Option& option) {
  // Without what CLI11's checks put behind it.
  const std::string type = option.get_type_name();
  return type.empty() ? "VALUE" : type.substr(0, type.find(':'));
}

std::string Synopsis(const CLI::App& app) {
  std::string line = Bold(absl::StrJoin(PathOf(app), " "));
  if (!Commands(app).empty()) absl::StrAppend(&line, " ", Italic("COMMAND"));
  for (const CLI::Option* option : app.get_options(nullptr)) {
    if (!option->get_positional()) continue;
    const std::string word = Italic(Placeholder(*option));
    absl::StrAppend(&line, " ", option->get_required() ? word : absl::StrCat("[", word, "]"));
  }
  absl::StrAppend(&line, " [", Italic("OPTION"), " ...]\n");
  return line;
}

// Lines of text; a line that is indented is kept as it is.
std::string Paragraphs(absl::string_view text) {
  std::string out;
  bool literal = false;
  for (const absl::string_view line : absl::StrSplit(absl::StripAsciiWhitespace(text), '\n')) {
    const bool indented = absl::StartsWith(line, "  ");
    if (indented != literal) absl::StrAppend(&out, indented ? ".PP\n.nf\n" : ".fi\n.PP\n");
    literal = indented;
    absl::StrAppend(&out, RoffText(line), "\n");
  }
  if (literal) absl::StrAppend(&out, ".fi\n");
  return out;
}

void AddOption(const CLI::Option& option, std::string* out) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(Bold("-" + name));
  for (const std::string& name : option.get_lnames()) names.push_back(Bold("--" + name));
  if (option.get_positional()) names = {Italic(Placeholder(option))};
  absl::StrAppend(out, ".TP\n", absl::StrJoin(names, ", "));
  if (!option.get_positional() && TakesValue(option)) {
    absl::StrAppend(out, " ", Italic(Placeholder(option)));
  }
  absl::StrAppend(out, "\n", RoffText(option.get_description()), "\n");
}

// Those of the command itself, positional ones first.
std::string Options(const CLI::App& app) {
  std::string out;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : app.get_options(nullptr)) {
      if (option->get_positional() == positional && !option->get_group().empty()) {
        AddOption(*option, &out);
      }
    }
  }
  return out;
}

std::string PageName(const CLI::App& app) { return absl::StrJoin(PathOf(app), "-"); }

// Appends the first code point of UTF-8 by its number, which every roff takes; returns its length.
size_t AppendCodePoint(absl::string_view text, std::string* out) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (length == 1 || text.size() < length) {
    out->push_back('?');
    return 1;
  }
  uint32_t code = lead & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  absl::StrAppendFormat(out, "\\[u%04X]", code);
  return length;
}

void AddPages(const CLI::App& app, const std::string& date, std::vector<ManPage>* pages) {
  const std::string name = PageName(app);
  std::string text =
      absl::StrCat(".TH ", RoffText(absl::AsciiStrToUpper(name)), " 1 ", date,
                   " Capstan \"Capstan manual\"\n.SH NAME\n", RoffText(name), " \\- ",
                   RoffText(app.get_description()), "\n.SH SYNOPSIS\n", Synopsis(app));
  const std::vector<const CLI::App*> commands = Commands(app);
  if (!commands.empty()) {
    absl::StrAppend(&text, ".SH COMMANDS\n");
    for (const CLI::App* command : commands) {
      absl::StrAppend(&text, ".TP\n", Bold(command->get_name()), "\n",
                      RoffText(command->get_description()), "; see ", Bold(PageName(*command)),
                      "(1)\n");
    }
  }
  const std::string options = Options(app);
  if (!options.empty()) absl::StrAppend(&text, ".SH OPTIONS\n", options);
  const std::string footer = app.get_footer();
  const size_t examples = footer.find(kExamples);
  const std::string notes = footer.substr(0, examples);
  if (!absl::StripAsciiWhitespace(notes).empty()) {
    absl::StrAppend(&text, ".SH NOTES\n", Paragraphs(notes));
  }
  if (examples != std::string::npos) {
    // Without the strip of the first line's indent.
    absl::StrAppend(&text, ".SH EXAMPLES\n.nf\n");
    const std::string shown = footer.substr(examples + sizeof(kExamples) - 1);
    for (const absl::string_view line : absl::StrSplit(shown, '\n', absl::SkipWhitespace())) {
      absl::StrAppend(&text, RoffText(absl::StripLeadingAsciiWhitespace(line)), "\n");
    }
    absl::StrAppend(&text, ".fi\n");
  }
  absl::StrAppend(&text, ".SH SEE ALSO\n");
  if (const CLI::App* parent = app.get_parent(); parent != nullptr) {
    absl::StrAppend(&text, Bold(PageName(*parent)),
                    "(1) for the options that every command takes,\n");
  }
  absl::StrAppend(&text, Bold("capstan help exit-codes"), " for the exit codes\n");
  pages->push_back({absl::StrCat(name, ".1"), std::move(text)});
  for (const CLI::App* command : commands) AddPages(*command, date, pages);
}

}  // namespace

std::string RoffText(absl::string_view text) {
  std::string out;
  bool line_start = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c & 0x80) != 0) {
      line_start = false;
      i += AppendCodePoint(text.substr(i), &out) - 1;
      continue;
    }
    // A request only at the beginning of a line; \& is nothing, and hides it.
    if (line_start && (c == '.' || c == '\'')) out.append("\\&");
    line_start = c == '\n';
    switch (c) {
      case '\\':
        out.append("\\e");
        break;
      case '-':
        out.append("\\-");
        break;
      case '\'':
        out.append("\\(aq");
        break;
      case '`':
        out.append("\\(ga");
        break;
      case '^':
        out.append("\\(ha");
        break;
      case '~':
        out.append("\\(ti");
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::vector<ManPage> ManPages(const CLI::App& root, absl::Time date) {
  std::vector<ManPage> pages;
  AddPages(root, absl::FormatTime("%Y-%m-%d", date, absl::UTCTimeZone()), &pages);
  return pages;
}

}  // namespace capstan::cli
