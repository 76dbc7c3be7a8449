#include "services/scheduler/core/arrays.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/digest/sha256.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::ArrayProgress;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;

namespace {

// Named by ElementsInWords; the others are counted.
constexpr int kMaxNamed = 3;

bool HasBit(const std::string& bits, int index) {
  const size_t at = static_cast<size_t>(index) / 8;
  return at < bits.size() && (static_cast<unsigned char>(bits[at]) >> (index % 8) & 1) != 0;
}

void SetBit(int index, std::string* bits) {
  const size_t at = static_cast<size_t>(index) / 8;
  if (bits->size() <= at) bits->resize(at + 1, '\0');
  (*bits)[at] = static_cast<char>(static_cast<unsigned char>((*bits)[at]) | 1U << (index % 8));
}

}  // namespace

bool IsArray(const JobEntry& job) { return job.state.has_elements(); }

bool IsElement(const JobEntry& job) { return job.spec.has_element(); }

std::string ElementName(absl::string_view array, int index) {
  return absl::StrCat(array, "-", index);
}

std::string ElementUid(absl::string_view array_uid, int index) {
  std::string bytes = Sha256::Of(absl::StrCat(array_uid, "/", index)).substr(0, 16);
  // Version and variant.
  bytes[6] = static_cast<char>((static_cast<unsigned char>(bytes[6]) & 0x0F) | 0x40);
  bytes[8] = static_cast<char>((static_cast<unsigned char>(bytes[8]) & 0x3F) | 0x80);
  std::string uid = absl::BytesToHexString(bytes);
  for (const size_t at : {8, 13, 18, 23}) uid.insert(at, 1, '-');
  return uid;
}

rec::JobSpecRecord ElementSpec(const JobEntry& array, int index) {
  rec::JobSpecRecord spec = array.spec;
  spec.set_name(ElementName(array.spec.name(), index));
  spec.set_uid(ElementUid(array.uid(), index));
  spec.set_submit_sequence(array.spec.submit_sequence() + 1 + index);
  spec.set_array_uid(array.uid());
  spec.mutable_element()->set_array(array.spec.name());
  spec.mutable_element()->set_index(index);
  spec.mutable_element()->set_size(array.spec.spec().array().size());
  spec.mutable_spec()->clear_array();
  for (JobDependency& asked : *spec.mutable_spec()->mutable_after()) {
    if (asked.condition() != JobDependency::CONDITION_CORRESPONDING) continue;
    asked.set_job(ElementName(asked.job(), index));
    asked.set_condition(JobDependency::CONDITION_SUCCEEDED);
  }
  return spec;
}

bool HasEnded(const JobEntry& array, int index) {
  return HasBit(array.state.elements().ended(), index);
}

bool HasSucceeded(const JobEntry& array, int index) {
  return HasBit(array.state.elements().succeeded(), index);
}

void SetEnded(int index, bool succeeded, JobEntry* array) {
  rec::JobStateRecord::Elements& elements = *array->state.mutable_elements();
  SetBit(index, elements.mutable_ended());
  if (succeeded) SetBit(index, elements.mutable_succeeded());
}

ArrayProgress ProgressOf(const JobEntry& array) {
  ArrayProgress progress;
  progress.set_size(array.spec.spec().array().size());
  for (int index = 0; index < progress.size(); ++index) {
    if (HasEnded(array, index)) progress.set_ended(progress.ended() + 1);
    if (HasSucceeded(array, index)) progress.set_succeeded(progress.succeeded() + 1);
  }
  return progress;
}

std::string ElementsInWords(const JobEntry& array, const Model& model) {
  const ArrayProgress progress = ProgressOf(array);
  std::string words =
      absl::StrCat(progress.ended(), " of its ", progress.size(), " elements have ended, ",
                   progress.succeeded(), " of them with success");
  int named = 0;
  for (int index = 0; index < progress.size() && named < kMaxNamed; ++index) {
    if (HasEnded(array, index)) continue;
    const std::string name = ElementName(array.spec.name(), index);
    const JobEntry* element = model.FindJobByName(name);
    if (element == nullptr) continue;
    absl::StrAppend(&words, named++ == 0 ? "; waits for " : ", ", name, " (",
                    absl::StripPrefix(Job::State_Name(element->state.state()), "STATE_"),
                    element->state.reason().empty() ? "" : ", ", element->state.reason(), ")");
  }
  const int more = progress.size() - progress.ended() - named;
  if (named > 0 && more > 0) absl::StrAppend(&words, " and ", more, " more");
  return words;
}

}  // namespace capstan::scheduler
