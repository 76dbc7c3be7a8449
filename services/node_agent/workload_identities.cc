#include "services/node_agent/workload_identities.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "libs/auth/spiffe_id.h"
#include "libs/jose/jwt_svid.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"

namespace capstan::node_agent {

using session::TaskId;

namespace {

constexpr char kFetchJwtSvid[] = "/SpiffeWorkloadAPI/FetchJWTSVID";
constexpr absl::Duration kLeastRefresh = absl::Seconds(1);
constexpr absl::Duration kMostRefresh = absl::Minutes(5);

absl::Status Closed() { return absl::UnavailableError("The Task has ended."); }

absl::Status Overloaded(absl::string_view what) {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kUnavailable, "OVERLOADED", absl::StrCat("Too many ", what)),
      absl::Seconds(1));
}

std::string Concatenated(const std::vector<std::string>& ders) { return absl::StrJoin(ders, ""); }

// Writes to every stream; those that are over, or do not take it, leave.
template <typename Message>
void Push(std::vector<std::shared_ptr<WorkloadStream<Message>>>& streams, const Message& message) {
  std::erase_if(streams, [&](const auto& stream) {
    const absl::Status written = stream->Write(message);
    if (!written.ok()) stream->Finish(absl::UnavailableError("Read faster, or ask again."));
    return !written.ok();
  });
}

template <typename Message>
void FinishAll(std::vector<std::shared_ptr<WorkloadStream<Message>>>& streams) {
  for (const auto& stream : streams) stream->Finish(Closed());
  streams.clear();
}

// Takes the stream among those of the Task, after its first message if there is one.
template <typename Message>
void Open(std::vector<std::shared_ptr<WorkloadStream<Message>>>& streams,
          std::shared_ptr<WorkloadStream<Message>> stream, const absl::optional<Message>& first) {
  if (streams.size() >= WorkloadIdentities::kMaxStreams) {
    return stream->Finish(Overloaded("streams"));
  }
  if (first.has_value() && !stream->Write(*first).ok()) return stream->Finish(Closed());
  streams.push_back(std::move(stream));
}

bool IsAudience(const std::string& audience) {
  return !audience.empty() && audience.size() <= 255 &&
         std::all_of(audience.begin(), audience.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

}  // namespace

WorkloadIdentities::WorkloadIdentities(Deps deps) : deps_(std::move(deps)) {}

WorkloadIdentities::~WorkloadIdentities() { CloseAll(); }

absl::Status WorkloadIdentities::NoIdentity() {
  return status::Error(absl::StatusCode::kPermissionDenied, "NO_IDENTITY",
                       "The calling process is none of a running Task with an identity.");
}

WorkloadIdentities::Entry* WorkloadIdentities::Find(const TaskId& id, uint64_t number) {
  const auto it = entries_.find(id);
  return it == entries_.end() || it->second.number != number ? nullptr : &it->second;
}

void WorkloadIdentities::Serve(const KeepIdentity& order) {
  const auto [it, added] = entries_.try_emplace(order.order.id);
  if (!added) return;
  it->second.order = order;
  it->second.number = ++last_number_;
  Load(it->second);
  if (!keys_.has_value()) AskForKeys();
}

void WorkloadIdentities::Renewed(const TaskId& id) {
  const auto it = entries_.find(id);
  if (it != entries_.end()) Load(it->second);
}

void WorkloadIdentities::Close(const TaskId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  Entry entry = std::move(it->second);
  entries_.erase(it);
  FinishAll(entry.x509);
  FinishAll(entry.x509_bundles);
  FinishAll(entry.jwt_bundles);
  for (auto& [call, done] : entry.pending) done(Closed());
}

void WorkloadIdentities::CloseAll() {
  while (!entries_.empty()) Close(TaskId(entries_.begin()->first));
  if (keys_timer_ != 0) deps_.strand->Cancel(std::exchange(keys_timer_, 0));
}

void WorkloadIdentities::Load(Entry& entry) {
  deps_.identity->Read(entry.order.directory,
                       [this, alive = std::weak_ptr<char>(alive_), id = entry.order.order.id,
                        number = entry.number](absl::StatusOr<TaskSvid> svid) {
                         if (alive.expired()) return;
                         Entry* const found = Find(id, number);
                         if (found == nullptr) return;
                         if (svid.ok()) return Loaded(*found, *std::move(svid));
                         // What there was stays; the next renewal brings another.
                         deps_.logger->Warning("Task's SVID cannot be read",
                                               {{"task", id.Path()}, {"cause", svid.status()}});
                       });
}

void WorkloadIdentities::Loaded(Entry& entry, TaskSvid svid) {
  const absl::StatusOr<rpc::Certificate> leaf = rpc::ParseCertificate(svid.chain.at(0));
  const absl::StatusOr<auth::SpiffeId> id =
      leaf.ok() ? auth::SpiffeId::Parse(leaf->uri) : absl::StatusOr<auth::SpiffeId>(leaf.status());
  if (!id.ok()) {
    deps_.logger->Warning("Task's SVID is none", {{"task", entry.order.order.id.Path()}});
    return;
  }
  const bool changed = !entry.svid.has_value() || *entry.svid != svid;
  const bool new_roots = !entry.svid.has_value() || entry.svid->roots != svid.roots;
  entry.svid = std::move(svid);
  entry.spiffe_id = id->ToString();
  entry.trust_domain = id->trust_domain;
  entry.account_id =
      auth::SpiffeId::ServiceAccount(id->trust_domain, id->project, id->service_account).ToString();
  if (changed) Push(entry.x509, X509State(entry));
  if (new_roots) Push(entry.x509_bundles, X509Bundles(entry));
}

::X509SVIDResponse WorkloadIdentities::X509State(const Entry& entry) const {
  ::X509SVIDResponse response;
  ::X509SVID* svid = response.add_svids();
  svid->set_spiffe_id(entry.spiffe_id);
  svid->set_x509_svid(Concatenated(entry.svid->chain));
  svid->set_x509_svid_key(entry.svid->private_key);
  svid->set_bundle(Concatenated(entry.svid->roots));
  svid->set_hint(kTaskHint);
  return response;
}

::X509BundlesResponse WorkloadIdentities::X509Bundles(const Entry& entry) const {
  ::X509BundlesResponse response;
  (*response.mutable_bundles())[absl::StrCat("spiffe://", entry.trust_domain)] =
      Concatenated(entry.svid->roots);
  return response;
}

::JWTBundlesResponse WorkloadIdentities::JwtBundles() const {
  ::JWTBundlesResponse response;
  (*response.mutable_bundles())[absl::StrCat("spiffe://", keys_->trust_domain)] = keys_->jwks;
  return response;
}

void WorkloadIdentities::FetchX509Svid(const TaskId& id,
                                       std::shared_ptr<WorkloadStream<::X509SVIDResponse>> stream) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return stream->Finish(NoIdentity());
  absl::optional<::X509SVIDResponse> first;
  if (it->second.svid.has_value()) first = X509State(it->second);
  Open(it->second.x509, std::move(stream), first);
}

void WorkloadIdentities::FetchX509Bundles(
    const TaskId& id, std::shared_ptr<WorkloadStream<::X509BundlesResponse>> stream) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return stream->Finish(NoIdentity());
  absl::optional<::X509BundlesResponse> first;
  if (it->second.svid.has_value()) first = X509Bundles(it->second);
  Open(it->second.x509_bundles, std::move(stream), first);
}

void WorkloadIdentities::FetchJwtBundles(
    const TaskId& id, std::shared_ptr<WorkloadStream<::JWTBundlesResponse>> stream) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return stream->Finish(NoIdentity());
  absl::optional<::JWTBundlesResponse> first;
  if (keys_.has_value()) first = JwtBundles();
  Open(it->second.jwt_bundles, std::move(stream), first);
}

void WorkloadIdentities::FetchJwtSvid(const TaskId& id, const ::JWTSVIDRequest& request,
                                      JwtDone done) {
  if (request.audience_size() < 1 || request.audience_size() > kMaxAudiences ||
      !std::all_of(request.audience().begin(), request.audience().end(), IsAudience)) {
    return done(status::Error(absl::StatusCode::kInvalidArgument, "INVALID_AUDIENCE",
                              "audience: expected 1 to 8 of 1 to 255 printable characters"));
  }
  const auto it = entries_.find(id);
  if (it == entries_.end()) return done(NoIdentity());
  Entry& entry = it->second;
  if (!entry.svid.has_value()) return done(absl::UnavailableError("The identity is being read."));
  std::vector<bool> subjects = {false, true};
  if (!request.spiffe_id().empty()) {
    if (request.spiffe_id() != entry.spiffe_id && request.spiffe_id() != entry.account_id) {
      const absl::Status denied =
          status::Error(absl::StatusCode::kPermissionDenied, "NOT_THE_TASKS_IDENTITY",
                        "The SPIFFE id that was asked for is not the Task's.");
      if (deps_.refused) {
        deps_.refused(entry.spiffe_id, kFetchJwtSvid, request.spiffe_id().substr(0, 256), denied);
      }
      return done(denied);
    }
    subjects = {request.spiffe_id() == entry.account_id};
  }
  if (entry.pending.size() >= kMaxPending) return done(Overloaded("requests for tokens"));
  auto fetch = std::make_shared<Fetch>();
  fetch->id = id;
  fetch->number = entry.number;
  fetch->call = ++last_number_;
  fetch->subjects = std::move(subjects);
  fetch->audiences.assign(request.audience().begin(), request.audience().end());
  std::sort(fetch->audiences.begin(), fetch->audiences.end());
  entry.pending[fetch->call] = std::move(done);
  GoOn(std::move(fetch));
}

void WorkloadIdentities::GoOn(std::shared_ptr<Fetch> fetch) {
  Entry* const entry = Find(fetch->id, fetch->number);
  if (entry == nullptr) return;
  const absl::Time now = deps_.strand->clock().Read().wall;
  while (static_cast<size_t>(fetch->response.svids_size()) < fetch->subjects.size()) {
    TokenKey key{fetch->subjects[static_cast<size_t>(fetch->response.svids_size())],
                 fetch->audiences};
    const auto kept = entry->tokens.find(key);
    if (kept == entry->tokens.end() || kept->second.use_until <= now) {
      return deps_.tokens->Issue(
          entry->order.order, key.first, key.second,
          [this, alive = std::weak_ptr<char>(alive_), fetch, key](absl::StatusOr<TaskToken> token) {
            if (!alive.expired()) OnToken(fetch, key, std::move(token));
          });
    }
    ::JWTSVID* svid = fetch->response.add_svids();
    svid->set_spiffe_id(kept->second.token.spiffe_id);
    svid->set_svid(kept->second.token.token);
    svid->set_hint(key.first ? kAccountHint : kTaskHint);
  }
  Answer(*fetch, std::move(fetch->response));
}

void WorkloadIdentities::OnToken(const std::shared_ptr<Fetch>& fetch, const TokenKey& key,
                                 absl::StatusOr<TaskToken> token) {
  Entry* const entry = Find(fetch->id, fetch->number);
  if (entry == nullptr) return;
  const absl::Time now = deps_.strand->clock().Read().wall;
  if (token.ok() && token->expires <= now) token = absl::UnavailableError("The token has expired.");
  if (!token.ok()) return Answer(*fetch, token.status());
  if (entry->tokens.size() >= kMaxTokens && entry->tokens.count(key) == 0) {
    entry->tokens.erase(std::min_element(entry->tokens.begin(), entry->tokens.end(),
                                         [](const auto& a, const auto& b) {
                                           return std::tie(a.second.use_until, a.second.number) <
                                                  std::tie(b.second.use_until, b.second.number);
                                         }));
  }
  KeptToken kept{*std::move(token), now, ++last_number_};
  kept.use_until = now + (kept.token.expires - now) / 2;
  entry->tokens.insert_or_assign(key, std::move(kept));
  GoOn(fetch);
}

void WorkloadIdentities::Answer(const Fetch& fetch, absl::StatusOr<::JWTSVIDResponse> response) {
  Entry* const entry = Find(fetch.id, fetch.number);
  if (entry == nullptr) return;
  const auto it = entry->pending.find(fetch.call);
  if (it == entry->pending.end()) return;
  JwtDone done = std::move(it->second);
  entry->pending.erase(it);
  done(std::move(response));
}

absl::StatusOr<::ValidateJWTSVIDResponse> WorkloadIdentities::ValidateJwtSvid(
    const TaskId& id, const ::ValidateJWTSVIDRequest& request) const {
  if (entries_.count(id) == 0) return NoIdentity();
  if (!key_set_.has_value()) return absl::UnavailableError("The keys are not known yet.");
  const auto valid = jose::ValidateJwtSvid(request.svid(), *key_set_, keys_->trust_domain,
                                           request.audience(), deps_.strand->clock().Read().wall);
  if (!valid.ok()) {
    return status::Error(absl::StatusCode::kInvalidArgument, status::Reason(valid.status()),
                         valid.status().message());
  }
  ::ValidateJWTSVIDResponse response;
  response.set_spiffe_id(valid->claims.subject);
  if (!google::protobuf::util::JsonStringToMessage(valid->payload, response.mutable_claims())
           .ok()) {
    return absl::InvalidArgumentError("The token's claims cannot be told.");
  }
  return response;
}

void WorkloadIdentities::AskForKeys() {
  if (asking_ || keys_timer_ != 0) return;
  asking_ = true;
  deps_.tokens->GetKeys(
      [this, alive = std::weak_ptr<char>(alive_)](absl::StatusOr<TokenKeys> keys) {
        if (alive.expired()) return;
        asking_ = false;
        OnKeys(std::move(keys));
      });
}

void WorkloadIdentities::OnKeys(absl::StatusOr<TokenKeys> keys) {
  absl::Duration delay = kLeastRefresh;
  absl::StatusOr<jose::KeySet> set =
      keys.ok() ? jose::KeySet::Parse(keys->jwks) : absl::StatusOr<jose::KeySet>(keys.status());
  if (set.ok()) {
    key_failures_ = 0;
    delay = std::clamp(keys->refresh_after, kLeastRefresh, kMostRefresh);
    const bool changed = !keys_.has_value() || keys_->jwks != keys->jwks;
    keys_ = *std::move(keys);
    key_set_ = *std::move(set);
    if (changed) {
      const ::JWTBundlesResponse bundles = JwtBundles();
      for (auto& [id, entry] : entries_) Push(entry.jwt_bundles, bundles);
    }
  } else {
    if (key_failures_ == 0) {
      deps_.logger->Warning("keys of tokens not got; tried again", {{"cause", set.status()}});
    }
    delay = std::min(kMostRefresh, kLeastRefresh * (1 << std::min(key_failures_++, 5)));
  }
  // Nobody asks: with the next Task they are asked for again.
  if (entries_.empty()) {
    keys_.reset();
    key_set_.reset();
    return;
  }
  keys_timer_ = deps_.strand->RunAfter(delay, [this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    keys_timer_ = 0;
    AskForKeys();
  });
}

}  // namespace capstan::node_agent
