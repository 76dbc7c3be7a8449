#include "libs/kube/informer/toy_api_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

using nlohmann::json;

json ToJson(const Toy& toy) {
  return {{"metadata",
           {{"namespace", toy.ns},
            {"name", toy.name},
            {"uid", toy.uid},
            {"resourceVersion", toy.resource_version}}},
          {"color", toy.color},
          {"owner", toy.owner}};
}

absl::Status Malformed() {
  return status::Error(absl::StatusCode::kInvalidArgument, "OBJECT_MALFORMED", "not a Toy");
}

absl::optional<Toy> FromJson(const json& object) {
  if (!object.contains("metadata")) return absl::nullopt;
  const json& metadata = object["metadata"];
  return Toy{metadata.value("namespace", ""), metadata.value("name", ""),
             metadata.value("uid", ""),       metadata.value("resourceVersion", ""),
             object.value("color", ""),       object.value("owner", "")};
}

// The value of a parameter; none is escaped that the tests use but `=`.
std::string Parameter(absl::string_view target, absl::string_view name) {
  const size_t query = target.find('?');
  if (query == absl::string_view::npos) return "";
  for (absl::string_view part : absl::StrSplit(target.substr(query + 1), '&')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (field.first == name) return std::string(field.second);
  }
  return "";
}

// `color=red` is the one kind of selector.
bool Selects(absl::string_view target, const std::shared_ptr<const Toy>& toy) {
  const std::string selector = Parameter(target, "labelSelector");
  return toy != nullptr && (selector.empty() || selector == absl::StrCat("color%3d", toy->color));
}

std::string Line(const char* type, json object) {
  return json{{"type", type}, {"object", std::move(object)}}.dump() + "\n";
}

json Bookmark(const std::string& version, bool initial_events_end) {
  json metadata = {{"resourceVersion", version}};
  if (initial_events_end) metadata["annotations"] = {{"k8s.io/initial-events-end", "true"}};
  return {{"metadata", metadata}};
}

}  // namespace

ResourceType ToyType() { return {"example.org", "v1", "Toy", "toys", true}; }

absl::StatusOr<std::shared_ptr<const Toy>> ToyCodec::ParseObject(absl::string_view object) const {
  const json parsed = json::parse(object.begin(), object.end(), nullptr, false);
  absl::optional<Toy> toy;
  if (!parsed.is_discarded()) toy = FromJson(parsed);
  if (!toy.has_value()) return Malformed();
  return std::make_shared<const Toy>(*std::move(toy));
}

absl::StatusOr<EncodedList> ToyCodec::SplitList(absl::string_view body) const {
  CAPSTAN_ASSIGN_OR_RETURN(JsonList list, SplitJsonList(body));
  return EncodedList{std::move(list.items), std::move(list.head.resource_version),
                     std::move(list.head.continue_token), list.head.remaining};
}

absl::optional<ObjectNames> ToyCodec::FindNames(absl::string_view object) const {
  if (!compact_) return absl::nullopt;
  // What the server writes has neither blanks nor escapes.
  const auto find = [&](absl::string_view field) {
    const std::string begin = absl::StrCat("\"", field, "\":\"");
    const size_t at = object.find(begin);
    if (at == absl::string_view::npos) return absl::string_view();
    const absl::string_view rest = object.substr(at + begin.size());
    return rest.substr(0, rest.find('"'));
  };
  return ObjectNames{find("namespace"), find("name"), find("uid"), find("resourceVersion")};
}

std::string ToyCodec::Write(const Toy& object) const { return ToJson(object).dump(); }

class ToyApiServer::CallImpl final : public Call {
 public:
  CallImpl(ToyApiServer* server, std::shared_ptr<Exchange> exchange)
      : server_(server), exchange_(std::move(exchange)) {}
  ~CallImpl() override {
    absl::MutexLock lock(&server_->mutex_);
    exchange_->destroyed = true;
    auto& all = server_->exchanges_;
    all.erase(std::remove(all.begin(), all.end(), exchange_), all.end());
    while (exchange_->in_handler && exchange_->handler_thread != std::this_thread::get_id()) {
      server_->left_handler_.Wait(&server_->mutex_);
    }
  }
  void Resume() override {
    absl::MutexLock lock(&server_->mutex_);
    exchange_->wants_more = true;
    server_->Poke();
  }

 private:
  ToyApiServer* const server_;
  const std::shared_ptr<Exchange> exchange_;
};

ToyApiServer::Ref ToyApiServer::Write(absl::string_view name, absl::string_view color,
                                      absl::string_view owner) {
  absl::MutexLock lock(&mutex_);
  const ObjectKey key{"default", std::string(name)};
  Ref& object = objects_[key];
  const Ref before = object;
  const std::string version = VersionAt(history_.size() + 1);
  object = std::make_shared<const Toy>(
      Toy{key.ns, key.name, before == nullptr ? absl::StrCat("uid-", history_.size()) : before->uid,
          version, std::string(color), std::string(owner)});
  history_.push_back({object, before, version});
  positions_[version] = history_.size();
  Poke();
  return object;
}

ToyApiServer::Ref ToyApiServer::Delete(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find({"default", std::string(name)});
  if (found == objects_.end()) return nullptr;
  const Ref before = found->second;
  objects_.erase(found);
  const std::string version = VersionAt(history_.size() + 1);
  history_.push_back({nullptr, before, version});
  positions_[version] = history_.size();
  Poke();
  return before;
}

void ToyApiServer::Compact() {
  absl::MutexLock lock(&mutex_);
  compacted_ = history_.size();
}
void ToyApiServer::set_faults(bool faults) {
  absl::MutexLock lock(&mutex_);
  faults_ = faults;
}
void ToyApiServer::set_watch_list(bool on) {
  absl::MutexLock lock(&mutex_);
  watch_list_ = on;
}
void ToyApiServer::set_answer(int status) {
  absl::MutexLock lock(&mutex_);
  answer_ = status;
}
void ToyApiServer::set_content_type(std::string type) {
  absl::MutexLock lock(&mutex_);
  content_type_ = std::move(type);
}

std::map<ObjectKey, ToyApiServer::Ref> ToyApiServer::objects() const {
  absl::MutexLock lock(&mutex_);
  return objects_;
}
size_t ToyApiServer::Position(const Toy& toy) const {
  absl::MutexLock lock(&mutex_);
  const auto found = positions_.find(toy.resource_version);
  return found == positions_.end() ? 0 : found->second;
}
std::vector<std::string> ToyApiServer::targets() const {
  absl::MutexLock lock(&mutex_);
  return targets_;
}

std::unique_ptr<Call> ToyApiServer::Start(HttpRequest request, ResponseHandler* handler) {
  auto exchange = std::make_shared<Exchange>();
  exchange->request = std::move(request);
  exchange->handler = handler;
  absl::MutexLock lock(&mutex_);
  targets_.push_back(exchange->request.target);
  exchanges_.push_back(exchange);
  Poke();
  return std::make_unique<CallImpl>(this, exchange);
}

void ToyApiServer::Poke() {
  if (scheduled_) return;
  scheduled_ = true;
  strand_->RunAfter(random_.Between(absl::ZeroDuration(), max_delay_ + absl::Nanoseconds(1)),
                    [this] { Run(); });
}

void ToyApiServer::Run() {
  std::shared_ptr<Exchange> exchange;
  Deed deed;
  {
    absl::MutexLock lock(&mutex_);
    scheduled_ = false;
    std::vector<std::shared_ptr<Exchange>> ready;
    for (const auto& one : exchanges_) {
      if (HasWork(*one)) ready.push_back(one);
    }
    if (ready.empty()) return;
    exchange = ready[random_.Below(ready.size())];
    deed = Next(exchange.get());
    exchange->in_handler = true;
    exchange->handler_thread = std::this_thread::get_id();
  }
  const auto destroyed = [&] {
    absl::MutexLock lock(&mutex_);
    return exchange->destroyed;
  };
  bool more = true;
  if (deed.head.has_value()) exchange->handler->OnHead(*std::move(deed.head));
  if (!deed.bytes.empty() && !destroyed()) {
    {
      // A Resume in or after the call counts, also if it comes before the answer.
      absl::MutexLock lock(&mutex_);
      exchange->wants_more = false;
    }
    more = exchange->handler->OnBytes(deed.bytes);
  }
  if (deed.end.has_value() && !destroyed()) exchange->handler->OnEnd(*std::move(deed.end));
  absl::MutexLock lock(&mutex_);
  if (more) exchange->wants_more = true;
  exchange->in_handler = false;
  left_handler_.SignalAll();
  Poke();
}

bool ToyApiServer::HasWork(const Exchange& exchange) const {
  if (exchange.ended) return false;
  if (!exchange.answered) return true;
  if (!exchange.out.empty()) return exchange.wants_more;
  return exchange.ends || (exchange.wants_more && exchange.cursor < history_.size());
}

ToyApiServer::Deed ToyApiServer::Next(Exchange* exchange) {
  if (!exchange->answered) return Answer(exchange);
  Deed deed;
  const bool breaks = faults_ && random_.OneIn(25);
  if (exchange->out.empty() && !exchange->ends && !breaks) AppendEvents(exchange);
  if (!exchange->out.empty()) {
    const size_t size = 1 + random_.Below(random_.OneIn(3) ? exchange->out.size() : 400);
    deed.bytes = exchange->out.substr(0, size);
    exchange->out.erase(0, deed.bytes.size());
  }
  if (breaks) {
    deed.end = random_.OneIn(3) && exchange->watch
                   ? absl::OkStatus()
                   : status::Error(absl::StatusCode::kUnavailable, kBroken, "it broke");
  } else if (exchange->ends && exchange->out.empty()) {
    deed.end = absl::OkStatus();
  }
  exchange->ended = deed.end.has_value();
  return deed;
}

ToyApiServer::Deed ToyApiServer::Answer(Exchange* exchange) {
  exchange->answered = true;
  const std::string& target = exchange->request.target;
  exchange->watch = Parameter(target, "watch") == "true";
  Deed deed;
  deed.head = HttpHead{200, {{"content-type", content_type_}}};
  if (answer_ != 0) {
    deed.head->status = answer_;
  } else if (faults_ && random_.OneIn(6)) {
    deed.head->status = random_.OneIn(2) ? 500 : 429;
    if (deed.head->status == 429) deed.head->headers.push_back({"Retry-After", "1"});
  } else if (exchange->watch) {
    BeginWatch(exchange, &*deed.head);
  } else {
    List(exchange, &*deed.head);
  }
  if (deed.head->status != 200) {
    exchange->out.clear();
    exchange->ends = true;
  }
  return deed;
}

void ToyApiServer::List(Exchange* exchange, HttpHead* head) {
  const std::string& target = exchange->request.target;
  size_t position = history_.size();
  size_t begin = 0, limit = 0;
  const std::vector<std::string> token = absl::StrSplit(Parameter(target, "continue"), '.');
  if (token.size() == 2) {
    if (!absl::SimpleAtoi(token[0], &position) || !absl::SimpleAtoi(token[1], &begin) ||
        position < compacted_) {
      head->status = 410;
      return;
    }
  }
  if (!absl::SimpleAtoi(Parameter(target, "limit"), &limit)) limit = history_.size() + 1;
  json items = json::array();
  size_t index = 0;
  std::string next;
  for (const auto& [key, object] : StateAt(position)) {
    if (!Selects(target, object) || index++ < begin) continue;
    if (items.size() == limit) {
      next = absl::StrCat(position, ".", begin + limit);
      break;
    }
    items.push_back(ToJson(*object));
  }
  exchange->out = json{
      {"metadata", {{"resourceVersion", VersionAt(position)}, {"continue", next}}},
      {"items",
       items}}.dump();
  exchange->ends = true;
}

void ToyApiServer::BeginWatch(Exchange* exchange, HttpHead* head) {
  const std::string& target = exchange->request.target;
  if (Parameter(target, "sendInitialEvents") == "true") {
    if (!watch_list_) {
      head->status = 422;
      return;
    }
    exchange->cursor = history_.size();
    for (const auto& [key, object] : objects_) {
      if (Selects(target, object)) exchange->out += Line("ADDED", ToJson(*object));
    }
    exchange->out += Line("BOOKMARK", Bookmark(VersionAt(history_.size()), true));
    return;
  }
  const std::string version = Parameter(target, "resourceVersion");
  const auto found = positions_.find(version);
  exchange->cursor = found == positions_.end() ? 0 : found->second;
  if (exchange->cursor >= compacted_) return;
  if (random_.OneIn(2)) {
    head->status = 410;
  } else {
    AppendExpired(exchange);
  }
}

void ToyApiServer::AppendExpired(Exchange* exchange) {
  exchange->out += Line("ERROR", {{"kind", "Status"}, {"code", 410}, {"reason", "Expired"}});
  exchange->ends = true;
}

void ToyApiServer::AppendEvents(Exchange* exchange) {
  if (exchange->cursor < compacted_ && faults_) {
    AppendExpired(exchange);
    return;
  }
  const std::string& target = exchange->request.target;
  const size_t count = 1 + random_.Below(4);
  for (size_t i = 0; i < count && exchange->cursor < history_.size(); ++i) {
    const Event& event = history_[exchange->cursor++];
    const bool was = Selects(target, event.before), is = Selects(target, event.after);
    if (is) {
      exchange->out += Line(was ? "MODIFIED" : "ADDED", ToJson(*event.after));
    } else if (was) {
      // As a real one: the state before, with the version of what ended it.
      Toy last = *event.before;
      last.resource_version = event.resource_version;
      exchange->out += Line("DELETED", ToJson(last));
    }
  }
  if (random_.OneIn(4)) {
    exchange->out += Line("BOOKMARK", Bookmark(VersionAt(exchange->cursor), false));
  }
}

std::map<ObjectKey, ToyApiServer::Ref> ToyApiServer::StateAt(size_t position) const {
  std::map<ObjectKey, Ref> state;
  for (size_t i = 0; i < position; ++i) {
    const Event& event = history_[i];
    if (event.after != nullptr) {
      state[KeyOf(*event.after)] = event.after;
    } else {
      state.erase(KeyOf(*event.before));
    }
  }
  return state;
}

std::string ToyApiServer::VersionAt(size_t position) const {
  return absl::StrCat("r", (position * 7919 + 13) % 1000003);
}

}  // namespace capstan::kube
