#include "libs/kube/client/pod_calls.h"

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/protobuf_codec.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {
namespace {

meta_v1::DeleteOptions ToProto(const DeleteOptions& options) {
  meta_v1::DeleteOptions proto;
  if (options.grace_period.has_value()) {
    proto.set_grace_period_seconds(absl::ToInt64Seconds(*options.grace_period));
  }
  if (!options.uid.empty()) proto.mutable_preconditions()->set_uid(options.uid);
  if (!options.resource_version.empty()) {
    proto.mutable_preconditions()->set_resource_version(options.resource_version);
  }
  switch (options.propagation) {
    case Propagation::kDefault:
      break;
    case Propagation::kOrphan:
      proto.set_propagation_policy("Orphan");
      break;
    case Propagation::kBackground:
      proto.set_propagation_policy("Background");
      break;
    case Propagation::kForeground:
      proto.set_propagation_policy("Foreground");
      break;
  }
  if (options.dry_run) proto.add_dry_run("All");
  return proto;
}

}  // namespace

std::unique_ptr<PendingCall> EvictPod(Client* client, absl::string_view ns, absl::string_view name,
                                      const DeleteOptions& options, Client::Done done) {
  policy_v1::Eviction eviction;
  eviction.mutable_metadata()->set_namespace_(std::string(ns));
  eviction.mutable_metadata()->set_name(std::string(name));
  *eviction.mutable_delete_options() = ToProto(options);
  WriteOptions write;
  write.dry_run = options.dry_run;
  ApiRequest request = CreateSubresourceRequest(
      kPods.type(), ns, name, "eviction",
      ProtobufCodec<policy_v1::Eviction>(kEvictions.type()).Write(eviction), write,
      Encoding::kProtobuf);
  if (!options.uid.empty() || !options.resource_version.empty()) {
    request.repeat = Repeat::kHarmless;
  }
  return client->Start(std::move(request), std::move(done));
}

std::unique_ptr<PendingCall> BindPod(Client* client, absl::string_view ns, absl::string_view name,
                                     absl::string_view uid, absl::string_view node,
                                     Client::Done done) {
  core_v1::Binding binding;
  binding.mutable_metadata()->set_namespace_(std::string(ns));
  binding.mutable_metadata()->set_name(std::string(name));
  if (!uid.empty()) binding.mutable_metadata()->set_uid(std::string(uid));
  binding.mutable_target()->set_api_version("v1");
  binding.mutable_target()->set_kind("Node");
  binding.mutable_target()->set_name(std::string(node));
  return client->Start(
      CreateSubresourceRequest(kPods.type(), ns, name, "binding",
                               ProtobufCodec<core_v1::Binding>(kBindings.type()).Write(binding),
                               WriteOptions(), Encoding::kProtobuf),
      std::move(done));
}

std::unique_ptr<PendingStream> StreamLog(Client* client, absl::string_view ns,
                                         absl::string_view name, const LogOptions& options,
                                         StreamReader* reader) {
  return client->Stream(LogRequest(ns, name, options), reader);
}

}  // namespace capstan::kube
