#include "tools/capstan/cli/log_line.h"

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "tools/capstan/cli/human_format.h"

namespace capstan::cli {
namespace {

constexpr std::array<Colour, 4> kRankColours = {Colour::kBlue, Colour::kGreen, Colour::kYellow,
                                                Colour::kRed};

std::string Gap(const telemetry::v1::Record& record) {
  event::v1::GapRecord gap;
  if (!gap.ParseFromString(record.payload())) return "[gap] some lines were dropped";
  return absl::StrCat("[gap] ", HumanBytes(gap.dropped_bytes()),
                      " were dropped here: ", WithoutControls(gap.reason()));
}

}  // namespace

std::string FormatLogLine(const telemetry::v1::Record& record, const LogLineStyle& style,
                          const Terminal& terminal) {
  if (record.kind() == "gap") return terminal.Paint(Colour::kRed, Gap(record));
  std::string prefix;
  if (style.time) {
    absl::StrAppend(&prefix, absl::FormatTime("%H:%M:%E3S ", ToTime(record.event_time()),
                                              absl::LocalTimeZone()));
  }
  const auto rank = record.attributes().find("rank");
  if (style.rank && rank != record.attributes().end()) {
    size_t number = 0;
    const bool known = absl::SimpleAtoi(rank->second, &number);
    const Colour colour = known ? kRankColours[number % kRankColours.size()] : Colour::kPlain;
    absl::StrAppend(&prefix,
                    terminal.Paint(colour, absl::StrCat("[", WithoutControls(rank->second), "]")),
                    " ");
  }
  return absl::StrCat(prefix, WithoutControls(record.payload()));
}

}  // namespace capstan::cli
