#include "libs/mig/profiles.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"

namespace capstan::mig {
namespace {

constexpr absl::string_view kResourcePrefix = "nvidia.com/mig-";
constexpr absl::string_view kSlicePrefix = "mig/";
// Longer than any name; what is quoted back stays short.
constexpr size_t kMostQuoted = 64;

constexpr uint32_t Starts(std::initializer_list<int> starts) {
  uint32_t bits = 0;
  for (const int start : starts) bits |= uint32_t{1} << start;
  return bits;
}

// The sizes in a model's names: of 1g, of what takes 2, of what takes 4 slices, and of all.
DeviceModel EightSlices(std::string name, const std::array<const char*, 4>& sizes) {
  const uint32_t each = Starts({0, 1, 2, 3, 4, 5, 6});
  const auto named = [&sizes](int compute, int size) {
    return absl::StrCat(compute, "g.", sizes[static_cast<size_t>(size)], "gb");
  };
  DeviceModel model{std::move(name), /*compute_slices=*/7, /*memory_slices=*/8, {}};
  model.profiles = {
      {named(1, 0), 1, 1, each, 7, false},
      {absl::StrCat(named(1, 0), "+me"), 1, 1, each, 1, true},
      {named(1, 1), 1, 2, Starts({0, 2, 4, 6}), 4, false},
      {named(2, 1), 2, 2, Starts({0, 2, 4}), 3, false},
      {named(3, 2), 3, 4, Starts({0, 4}), 2, false},
      {named(4, 2), 4, 4, Starts({0}), 1, false},
      {named(7, 3), 7, 8, Starts({0}), 1, false},
  };
  return model;
}

DeviceModel FourSlices() {
  DeviceModel model{"A30-24GB", /*compute_slices=*/4, /*memory_slices=*/4, {}};
  model.profiles = {
      {"1g.6gb", 1, 1, Starts({0, 1, 2, 3}), 4, false},
      {"1g.6gb+me", 1, 1, Starts({0, 1, 2, 3}), 1, true},
      {"2g.12gb", 2, 2, Starts({0, 2}), 2, false},
      {"2g.12gb+me", 2, 2, Starts({0, 2}), 1, true},
      {"4g.24gb", 4, 4, Starts({0}), 1, false},
  };
  return model;
}

std::string Names(const DeviceModel& model) {
  return absl::StrJoin(model.profiles, ", ", [](std::string* out, const Profile& profile) {
    absl::StrAppend(out, profile.name);
  });
}

absl::Status WrongProfile(const DeviceModel& model, absl::string_view text,
                          absl::string_view hint) {
  const std::string found(text.substr(0, kMostQuoted));
  return status::Error(
      absl::StatusCode::kInvalidArgument, "WRONG_MIG_PROFILE",
      absl::StrCat("MIG profile: found \"", found, "\"", hint, "; expected one of ", model.name,
                   ": ", Names(model), ", or ", kResourcePrefix, "<profile>"),
      {{"found", found}, {"model", model.name}});
}

int IndexOf(const DeviceModel& model, absl::string_view name) {
  for (size_t p = 0; p < model.profiles.size(); ++p) {
    if (model.profiles[p].name == name) return static_cast<int>(p);
  }
  return -1;
}

}  // namespace

const std::vector<DeviceModel>& DeviceModels() {
  static const auto& models = *new std::vector<DeviceModel>{
      FourSlices(),
      EightSlices("A100-40GB", {"5", "10", "20", "40"}),
      EightSlices("A100-80GB", {"10", "20", "40", "80"}),
      EightSlices("B200-180GB", {"23", "45", "90", "180"}),
      EightSlices("B300-269GB", {"34", "67", "135", "269"}),
      EightSlices("GB200-186GB", {"23", "47", "93", "186"}),
      EightSlices("H100-80GB", {"10", "20", "40", "80"}),
      EightSlices("H100-94GB", {"12", "24", "47", "94"}),
      EightSlices("H200-141GB", {"18", "35", "71", "141"}),
  };
  return models;
}

int ModelIndex(absl::string_view name) {
  const std::vector<DeviceModel>& models = DeviceModels();
  const auto found = std::find_if(models.begin(), models.end(),
                                  [name](const DeviceModel& model) { return model.name == name; });
  return found == models.end() ? -1 : static_cast<int>(found - models.begin());
}

std::string SliceResource(const DeviceModel& model) {
  return absl::StrCat(kSlicePrefix, absl::AsciiStrToLower(model.name));
}

bool IsSliceResource(absl::string_view name) { return absl::StartsWith(name, kSlicePrefix); }

absl::StatusOr<DeviceModel> FindDeviceModel(absl::string_view name) {
  if (const int index = ModelIndex(name); index >= 0) {
    return DeviceModels()[static_cast<size_t>(index)];
  }
  const std::string found(name.substr(0, kMostQuoted));
  return status::Error(absl::StatusCode::kNotFound, "UNKNOWN_MIG_MODEL",
                       absl::StrCat("accelerator model: found \"", found, "\"; expected one of ",
                                    absl::StrJoin(DeviceModels(), ", ",
                                                  [](std::string* out, const DeviceModel& model) {
                                                    absl::StrAppend(out, model.name);
                                                  })),
                       {{"found", found}});
}

absl::StatusOr<DeviceModel> WithoutProfiles(const DeviceModel& model,
                                            const std::vector<std::string>& names) {
  DeviceModel fewer = model;
  for (const std::string& name : names) {
    const int index = IndexOf(fewer, name);
    if (index < 0) return WrongProfile(fewer, name, "");
    fewer.profiles.erase(fewer.profiles.begin() + index);
  }
  return fewer;
}

std::string ResourceName(const Profile& profile) {
  return absl::StrCat(kResourcePrefix, absl::StrReplaceAll(profile.name, {{"+", "."}}));
}

absl::StatusOr<int> ParseProfile(const DeviceModel& model, absl::string_view text) {
  absl::string_view name = text;
  std::string from_resource;
  if (absl::ConsumePrefix(&name, kResourcePrefix)) {
    // A resource's name can hold no "+".
    if (name.find('+') != absl::string_view::npos) {
      return WrongProfile(model, text, ", with \"+\" where resources have \".\"");
    }
    from_resource = absl::StrReplaceAll(name, {{"gb.me", "gb+me"}});
    name = from_resource;
  }
  const int index = IndexOf(model, name);
  if (index >= 0) return index;
  const auto other = absl::c_find_if(
      DeviceModels(), [name](const DeviceModel& known) { return IndexOf(known, name) >= 0; });
  return WrongProfile(
      model, text,
      other == DeviceModels().end() ? "" : absl::StrCat(", a profile of ", other->name));
}

}  // namespace capstan::mig
