#include "tools/capstan/cli/completion_script.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

constexpr char kBash[] = R"script(# Completion of capstan for bash. In ~/.bashrc:
#   source <(capstan completion bash)
_capstan() {
  local -a words=() lines=()
  local i gap token line word text current kept="" width=0 rest="$COMP_LINE"
  # bash splits at = and : too: what stands together is one word.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    gap="${rest%%[![:space:]]*}"
    rest="${rest#"$gap"}"
    token="${COMP_WORDS[i]}"
    rest="${rest#"$token"}"
    if ((i == 0)) || [[ -n "$gap" ]]; then
      words+=("$token")
    else
      words[${#words[@]}-1]+="$token"
    fi
  done
  current="${words[${#words[@]}-1]}"
  if ((COMP_CWORD == 0)); then return; fi
  mapfile -t lines < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  ((${#lines[@]} > 0)) || return
  # What is before the last = or : is on the line already.
  if [[ "$current" == *[=:]* ]]; then kept="${current%"${current##*[=:]}"}"; fi
  for ((i = 0; i < ${#lines[@]} - 1; i++)); do
    word="${lines[i]%%$'\t'*}"
    word="${word#"$kept"}"
    COMPREPLY+=("$word")
    if ((${#word} > width)); then width=${#word}; fi
  done
  case "${lines[${#lines[@]}-1]}" in
    :files) compopt -o default 2>/dev/null ;;
    :folders) compopt -o dirnames 2>/dev/null ;;
  esac
  if ((${#COMPREPLY[@]} == 1)); then
    if [[ "${COMPREPLY[0]}" == *= ]]; then compopt -o nospace 2>/dev/null; fi
  elif [[ "${COMP_TYPE:-9}" != 37 && "${COMP_TYPE:-9}" != 9 ]]; then
    # They are listed, not put in: with what they mean.
    for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do
      line="${lines[i]}"
      if [[ "$line" == *$'\t'* ]]; then
        printf -v text '%-*s  (%s)' "$width" "${COMPREPLY[i]}" "${line#*$'\t'}"
        COMPREPLY[i]="${text:0:${COLUMNS:-80}-2}"
      fi
    done
  fi
}
complete -F _capstan capstan
)script";

constexpr char kZsh[] = R"script(#compdef capstan
# Completion of capstan for zsh. In ~/.zshrc, after compinit:
#   source <(capstan completion zsh)
_capstan() {
  local -a given lines values open
  local line word entry directive
  given=("${(@Q)words[2,CURRENT]}")
  lines=("${(@f)$("${(Q)words[1]}" __complete -- "${given[@]}" 2>/dev/null)}")
  (( $#lines )) || return 1
  directive="${lines[-1]}"
  lines[-1]=()
  for line in "${lines[@]}"; do
    word="${line%%$'\t'*}"
    entry="${word//:/\\:}"
    if [[ "$line" == *$'\t'* ]]; then entry+=":${line#*$'\t'}"; fi
    if [[ "$word" == *= ]]; then open+=("$entry"); else values+=("$entry"); fi
  done
  if (( $#values )); then _describe -V capstan values; fi
  if (( $#open )); then _describe -V capstan open -S ''; fi
  if [[ "$directive" != :none ]]; then compset -P '*='; fi
  case "$directive" in
    :files) _files ;;
    :folders) _files -/ ;;
  esac
}
if (( ! $+functions[compdef] )); then
  autoload -Uz compinit && compinit
fi
if [[ "$funcstack[1]" == _capstan ]]; then
  _capstan "$@"
else
  compdef _capstan capstan
fi
)script";

constexpr char kFish[] = R"script(# Completion of capstan for fish. In ~/.config/fish/config.fish:
#   capstan completion fish | source
function __capstan_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l lines ($program __complete -- $words "$current" 2>/dev/null)
    set -q lines[1]; or return
    set -l directive $lines[-1]
    set -e lines[-1]
    for line in $lines
        echo -- $line
    end
    switch $directive
        case :files
            __fish_complete_path (string replace -r '^-.*=' '' -- "$current")
        case :folders
            __fish_complete_directories (string replace -r '^-.*=' '' -- "$current") ''
    end
end
complete -c capstan -f -a '(__capstan_complete)'
)script";

struct Row {
  const char* shell;
  const char* script;
};
constexpr Row kRows[] = {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};

}  // namespace

const std::vector<std::string>& CompletionShells() {
  static const auto* const shells = new std::vector<std::string>{"bash", "zsh", "fish"};
  return *shells;
}

absl::StatusOr<std::string> CompletionScript(absl::string_view shell) {
  for (const Row& row : kRows) {
    if (shell == row.shell) return std::string(row.script);
  }
  return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_SHELL",
                       absl::StrCat("found '", WithoutControls(shell), "', expected one of ",
                                    absl::StrJoin(CompletionShells(), ", ")));
}

}  // namespace capstan::cli
