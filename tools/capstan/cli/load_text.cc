#include "tools/capstan/cli/load_text.h"

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"

namespace capstan::cli {
namespace {

using dataloader::v1::DataLoad;

constexpr absl::Duration kPrintAtLeast = absl::Seconds(5);
constexpr int kBarWidth = 20;

absl::Duration Took(const DataLoad& load) {
  if (!load.has_end_time() || !load.has_create_time()) return absl::ZeroDuration();
  return ToTime(load.end_time()) - ToTime(load.create_time());
}

std::string Subject(const DataLoad& load) {
  return absl::StrCat("data ", LastSegment(load.dataset()), ": ");
}

std::string State(const DataLoad& load) {
  return ShortEnum(DataLoad::State_Name(load.state()), "STATE_");
}

std::string Version(const DataLoad& load) {
  return load.version().empty() ? "" : absl::StrCat(", version ", LastSegment(load.version()));
}

// `, 3.1 MiB/s, ETA 2m5s`.
std::string Speed(const DataLoad& load) {
  std::string out;
  if (!LoadRate(load).empty()) absl::StrAppend(&out, ", ", LoadRate(load));
  absl::StrAppend(&out, ", ETA ", LoadEta(load).empty() ? "?" : LoadEta(load));
  return out;
}

std::string Over(const DataLoad& load) {
  const std::string share = Percent(load.loaded_bytes(), load.total_bytes());
  if (load.state() == DataLoad::STATE_FAILED) {
    return absl::StrCat(Subject(load), "FAILED ", load.reason(), " at ", share, " - ",
                        load.message());
  }
  // An empty Dataset is whole as well.
  std::string line =
      absl::StrCat(Subject(load), load.total_bytes() > 0 ? share : "100%", " of ",
                   HumanBytes(load.total_bytes()), " in ", HumanShortDuration(Took(load)));
  if (!LoadRate(load).empty()) absl::StrAppend(&line, ", ", LoadRate(load));
  return absl::StrCat(line, ", at ", load.site(), Version(load));
}

}  // namespace

bool IsFinal(const DataLoad& load) {
  return load.state() == DataLoad::STATE_SUCCEEDED || load.state() == DataLoad::STATE_FAILED;
}

std::string LoadRate(const DataLoad& load) {
  double rate = load.bytes_per_second();
  if (IsFinal(load)) {
    const absl::Duration took = Took(load);
    rate = took > absl::ZeroDuration()
               ? static_cast<double>(load.loaded_bytes()) / absl::ToDoubleSeconds(took)
               : 0;
  }
  return rate < 1 ? "" : absl::StrCat(HumanBytes(static_cast<int64_t>(rate)), "/s");
}

std::string LoadEta(const DataLoad& load) {
  return load.has_eta() && !IsFinal(load) ? HumanShortDuration(ToDuration(load.eta())) : "";
}

LoadLines::Shown LoadLines::OnLoad(const DataLoad& load, BootTime now, absl::Time since) {
  Shown shown;
  if (!begun_ && load.state() == DataLoad::STATE_SUCCEEDED && ToTime(load.end_time()) < since) {
    shown.lines = {
        WithoutControls(absl::StrCat(Subject(load), HumanBytes(load.total_bytes()), " are at ",
                                     load.site(), " already", Version(load)))};
    return shown;
  }
  if (!begun_) {
    begun_ = true;
    printed_ = now;
    shown.lines.push_back(
        absl::StrCat(Subject(load), "0%, loading to ", load.site(), " (", load.name(), ")"));
  }
  const int64_t tenth = load.total_bytes() > 0
                            ? static_cast<int64_t>(10.0 * static_cast<double>(load.loaded_bytes()) /
                                                   static_cast<double>(load.total_bytes()))
                            : 0;
  const std::string amounts =
      load.total_bytes() > 0
          ? absl::StrCat(HumanBytes(load.loaded_bytes()), " of ", HumanBytes(load.total_bytes()))
      : load.state() == DataLoad::STATE_QUEUED && !load.reason().empty()
          // Of what had to leave and is to come back.
          ? absl::StrCat("waits its turn, ", load.reason(), " - ", load.message())
          : State(load);
  if (IsFinal(load)) {
    shown.lines.push_back(Over(load));
  } else if (terminal_.interactive) {
    shown.live =
        absl::StrCat(Subject(load), ProgressBar(load.loaded_bytes(), load.total_bytes(), kBarWidth),
                     " ", amounts, Speed(load));
  } else if (tenth > tenth_ || now - printed_ >= kPrintAtLeast) {
    tenth_ = tenth;
    printed_ = now;
    shown.lines.push_back(absl::StrCat(Subject(load),
                                       Percent(load.loaded_bytes(), load.total_bytes()), ", ",
                                       amounts, Speed(load)));
  }
  for (std::string& line : shown.lines) line = WithoutControls(line);
  return shown;
}

}  // namespace capstan::cli
