#include "libs/gpu/gpu_json.h"

#include <vector>

#include "libs/gpu/gpu_model.h"
#include "nlohmann/json.hpp"

namespace capstan::gpu {
namespace {

// Keys stay in the order in which they are set.
using Json = nlohmann::ordered_json;

const char* KindName(ProfileKind kind) {
  switch (kind) {
    case ProfileKind::kPlain:
      return "plain";
    case ProfileKind::kMedia:
      return "media";
    case ProfileKind::kOther:
      return "other";
  }
  return "other";
}

// The driver's text may be anything.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Json ProfileJson(const GpuProfile& profile) {
  Json json = {{"id", profile.id}, {"kind", KindName(profile.kind)}};
  if (!profile.name.empty()) json["name"] = profile.name;
  json["compute_slices"] = profile.compute_slices;
  json["most"] = profile.most;
  json["memory_bytes"] = profile.memory_bytes;
  if (profile.placements.has_value()) {
    Json starts = Json::array();
    for (const Placement& placement : *profile.placements) starts.push_back(placement.start);
    json["starts"] = starts;
    if (!profile.placements->empty()) json["memory_slices"] = profile.placements->front().size;
  }
  return json;
}

}  // namespace

std::string GpuJson(const Gpu& gpu) {
  Json json = {{"index", gpu.index}};
  if (!gpu.uuid.empty()) json["uuid"] = gpu.uuid;
  if (!gpu.product.empty()) json["product"] = gpu.product;
  if (gpu.minor.has_value()) json["minor"] = *gpu.minor;
  if (gpu.memory_bytes > 0) json["memory_bytes"] = gpu.memory_bytes;
  const std::string model = ModelName(gpu.product, gpu.memory_bytes);
  if (!model.empty()) json["model"] = model;
  if (gpu.fault.has_value()) json["fault"] = std::string(FaultText(*gpu.fault));
  if (gpu.mig.has_value()) {
    json["mig"] = Json{{"now", gpu.mig->now}, {"pending", gpu.mig->pending}};
  }
  if (!gpu.profiles.empty()) {
    Json profiles = Json::array();
    for (const GpuProfile& profile : gpu.profiles) profiles.push_back(ProfileJson(profile));
    json["profiles"] = profiles;
  }
  if (gpu.instances.has_value()) {
    Json instances = Json::array();
    for (const GpuInstance& instance : *gpu.instances) {
      instances.push_back({{"id", instance.id},
                           {"profile", instance.profile},
                           {"start", instance.placement.start},
                           {"size", instance.placement.size}});
    }
    json["instances"] = instances;
  }
  return Dump(json);
}

std::string DeviceUseJson(const DeviceUse& device) {
  Json json = {{"uuid", device.uuid}};
  if (device.busy_percent.has_value()) json["busy_percent"] = *device.busy_percent;
  Json processes = Json::array();
  for (const ProcessUse& process : device.processes) {
    Json one = {{"pid", process.pid}};
    if (process.memory_bytes.has_value()) one["memory_bytes"] = *process.memory_bytes;
    processes.push_back(one);
  }
  json["processes"] = processes;
  return Dump(json);
}

}  // namespace capstan::gpu
