#include "services/scheduler/recorder/difference.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "libs/store/service_records.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/stored_records.h"

namespace capstan::scheduler {
namespace {

using recording::Decision;

constexpr size_t kMostLines = 40;
constexpr size_t kLongestLine = 400;

std::string Text(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  // Control characters of recorded texts must not reach a terminal.
  printer.SetUseUtf8StringEscaping(false);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

// What a decision is made of, in order.
std::vector<std::string> Pieces(const Decision& decision) {
  std::vector<std::string> pieces;
  for (int w = 0; w < decision.writes_size(); ++w) {
    const Decision::Write& write = decision.writes(w);
    for (const recording::RecordRecord& put : write.puts()) {
      pieces.push_back(
          absl::StrCat("write ", w + 1, " puts ", RecordInWords(put.key(), put.value())));
    }
    for (const Decision::Delete& erase : write.deletes()) {
      pieces.push_back(absl::StrCat("write ", w + 1, " deletes ", absl::CHexEscape(erase.key()),
                                    erase.end().empty() ? "" : " to ",
                                    absl::CHexEscape(erase.end()), "\n"));
    }
    for (int e = 0; e < write.event_digests_size(); ++e) {
      pieces.push_back(absl::StrCat("write ", w + 1, " tells event ", e + 1, " of digest ",
                                    absl::Hex(write.event_digests(e), absl::kZeroPad16), "\n"));
    }
  }
  for (int e = 0; e < decision.effects_size(); ++e) {
    pieces.push_back(absl::StrCat("effect ", e + 1, "\n", Text(decision.effects(e))));
  }
  return pieces;
}

void AppendLines(char sign, const std::string& piece, const std::vector<std::string>& others,
                 std::string* out) {
  size_t shown = 0;
  for (absl::string_view line : absl::StrSplit(piece, '\n', absl::SkipWhitespace())) {
    if (std::find(others.begin(), others.end(), line) != others.end()) continue;
    if (shown++ == kMostLines) {
      absl::StrAppend(out, "  ...\n");
      return;
    }
    absl::StrAppend(out, "  ", std::string(1, sign), " ", line.substr(0, kLongestLine), "\n");
  }
}

std::string Heading(const std::string& piece) { return piece.substr(0, piece.find('\n')); }

}  // namespace

std::string RecordInWords(absl::string_view key, absl::string_view value) {
  static const auto& kinds = *new store::ServiceRecords(StoredRecords());
  const std::string shown = absl::CHexEscape(key);
  for (const auto& kind : kinds.kinds) {
    if (!absl::StartsWith(key, absl::StrCat(kKeyPrefix, kind.prefix))) continue;
    const std::unique_ptr<google::protobuf::Message> message(kind.prototype->New());
    if (!message->ParseFromArray(value.data(), static_cast<int>(value.size()))) break;
    return absl::StrCat(shown, "\n", Text(*message));
  }
  return absl::StrCat(shown, "\n", absl::CHexEscape(value), "\n");
}

std::string DifferenceInWords(absl::string_view recorded, const Decision& now) {
  Decision before;
  const bool known = !recorded.empty() &&
                     before.ParseFromArray(recorded.data(), static_cast<int>(recorded.size()));
  const std::vector<std::string> now_pieces = Pieces(now);
  std::string out;
  if (!known) {
    out = "the recorded decision is known by its digest alone, or was none; now it is\n";
    std::string all;
    for (const std::string& piece : now_pieces) absl::StrAppend(&all, piece);
    AppendLines('+', all, {}, &out);
    return out;
  }
  const std::vector<std::string> before_pieces = Pieces(before);
  size_t at = 0;
  while (at < before_pieces.size() && at < now_pieces.size() &&
         before_pieces[at] == now_pieces[at]) {
    ++at;
  }
  const std::string was = at < before_pieces.size() ? before_pieces[at] : "";
  const std::string is = at < now_pieces.size() ? now_pieces[at] : "";
  if (was.empty() && is.empty()) {
    return "the recorded decision is not that of its digest: the recording is damaged\n";
  }
  const std::string heading = Heading(was.empty() ? is : was);
  out = absl::StrCat(heading, was.empty()              ? ": only now\n"
                              : is.empty()             ? ": only recorded\n"
                              : heading == Heading(is) ? ": another now\n"
                                                       : ": recorded, and now something else\n");
  const std::vector<std::string> was_lines = absl::StrSplit(was, '\n', absl::SkipWhitespace());
  const std::vector<std::string> is_lines = absl::StrSplit(is, '\n', absl::SkipWhitespace());
  AppendLines('-', was, is_lines, &out);
  AppendLines('+', is, was_lines, &out);
  return out;
}

}  // namespace capstan::scheduler
