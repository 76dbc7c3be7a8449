#include "services/data_loader/adapters/http_source.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/core/http_rules.h"

namespace capstan::data_loader {
namespace {

constexpr size_t kMaxIndexBytes = 256 << 20;
// Validators of objects that the server gives none for.
constexpr char kDigest[] = "digest";
constexpr char kEmpty[] = "empty";

absl::Status NamedError(absl::StatusCode code, absl::string_view reason, const HttpUrl& url,
                        absl::string_view what) {
  return status::Error(code, reason, absl::StrCat("object '", url.Shown(), "' ", what),
                       {{"object", url.Shown()}});
}

absl::Status SourceChanged(const HttpUrl& url) {
  return NamedError(absl::StatusCode::kAborted, "SOURCE_CHANGED", url,
                    "was changed while it was loaded; load it again");
}

absl::Status NotFound(const HttpUrl& url) {
  return NamedError(absl::StatusCode::kNotFound, "OBJECT_NOT_FOUND", url, "is not at its source");
}

absl::Status CheckAllowed(const HttpUrl& url, const HttpOptions& options) {
  if (IsAllowedUrl(url, options.allowed_url_prefixes)) return absl::OkStatus();
  return status::Error(absl::StatusCode::kPermissionDenied, "SOURCE_NOT_ALLOWED",
                       absl::StrCat("source '", url.Shown(),
                                    "' does not begin with a URL that the data_loader may read; "
                                    "ask an operator to allow it "
                                    "(data_loader.http.allowed_url_prefixes)"),
                       {{"source", url.Shown()}});
}

bool Encoded(const HttpHeaders& headers) {
  const auto encoding = headers.find("content-encoding");
  return encoding != headers.end() && encoding->second != "identity" && !encoding->second.empty();
}

absl::optional<int64_t> ContentLength(const HttpHeaders& headers) {
  const auto found = headers.find("content-length");
  int64_t length = 0;
  if (found == headers.end() || !absl::SimpleAtoi(found->second, &length) || length < 0) {
    return absl::nullopt;
  }
  return length;
}

class HttpSource final : public DataSource {
 public:
  HttpSource(HttpUrl url, const HttpOptions* options, const std::atomic<bool>* stop,
             std::function<void(absl::Duration)> pause, uint64_t seed)
      : url_(std::move(url)),
        options_(options),
        stop_(stop),
        pause_(std::move(pause)),
        client_(options, stop),
        random_(seed),
        budget_(options->retry_budget) {}

  absl::StatusOr<std::vector<LoadPlan::File>> List(
      const std::vector<std::string>& objects) const override {
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<IndexEntry> entries, Entries(objects));
    std::sort(entries.begin(), entries.end(),
              [](const IndexEntry& a, const IndexEntry& b) { return a.path < b.path; });
    std::vector<std::string> paths;
    paths.reserve(entries.size());
    for (const IndexEntry& entry : entries) paths.push_back(entry.path);
    CAPSTAN_RETURN_IF_ERROR(CheckPathSet(paths));
    for (const IndexEntry& entry : entries) {
      CAPSTAN_RETURN_IF_ERROR(CheckAllowed(entry.url, *options_));
    }
    std::vector<LoadPlan::File> files;
    CAPSTAN_ASSIGN_OR_RETURN(files, ProbeAll(entries));
    for (size_t i = 0; i < entries.size(); ++i) {
      const IndexEntry& entry = entries[i];
      LoadPlan::File& file = files[i];
      file.set_path(entry.path);
      if (entry.size_bytes.has_value() && *entry.size_bytes != file.size_bytes()) {
        return NamedError(
            absl::StatusCode::kAborted, "SOURCE_CHANGED", entry.url,
            absl::StrCat("has ", file.size_bytes(), " bytes; its index says ", *entry.size_bytes));
      }
      if (!entry.sha256.empty()) {
        if (!file.sha256().empty() && file.sha256() != entry.sha256) {
          return NamedError(absl::StatusCode::kAborted, "SOURCE_CHANGED", entry.url,
                            "has another digest than its index says");
        }
        file.set_sha256(entry.sha256);
      }
      // Nothing of an empty object could change but its size.
      if (file.size_bytes() == 0 && file.validator().empty()) file.set_validator(kEmpty);
      if (file.validator().empty()) {
        if (file.sha256().empty()) {
          return NamedError(absl::StatusCode::kFailedPrecondition, "SOURCE_UNVERIFIABLE", entry.url,
                            "has neither ETag nor Last-Modified, nor a digest in an index: a "
                            "change in mid-load could not be seen");
        }
        file.set_validator(kDigest);
      }
    }
    return files;
  }

  absl::Status Read(const LoadPlan::File& planned, int64_t offset, int64_t length,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) const override {
    CAPSTAN_ASSIGN_OR_RETURN(const HttpUrl url, ParseHttpUrl(planned.url()));
    int64_t done = 0;
    if (length == 0) return absl::OkStatus();
    return WithRetries(url, [&](absl::optional<absl::Duration>& retry_after, bool& progressed) {
      const int64_t first = offset + done;
      const int64_t last = offset + length - 1;
      HttpHeaders headers = ConditionFor(planned.validator());
      if (!planned.whole()) headers["Range"] = absl::StrCat("bytes=", first, "-", last);
      int64_t skip = 0;
      const int64_t before = done;
      const auto on_headers = [&](const HttpAnswer& answer) -> absl::StatusOr<bool> {
        CAPSTAN_RETURN_IF_ERROR(CheckStatus(url, answer, retry_after));
        CAPSTAN_RETURN_IF_ERROR(CheckSame(url, planned, answer));
        if (answer.status == 206) {
          const auto range = Range(answer);
          if (!range.has_value() || planned.whole()) return Lies(url, "a range that is none");
          if (range->total != planned.size_bytes()) return SourceChanged(url);
          if (range->first != first || range->last > last) {
            return Lies(url, "another range than was asked for");
          }
          return true;
        }
        // The whole object, from its beginning.
        const absl::optional<int64_t> size = ContentLength(answer.headers);
        if (size.has_value() && *size != planned.size_bytes()) return SourceChanged(url);
        if (!planned.whole() && (first != 0 || length != planned.size_bytes())) {
          return Lies(url, "the whole object where a range was asked for");
        }
        skip = first;
        return true;
      };
      const auto body = [&](absl::string_view bytes) {
        const auto skipped = std::min(skip, static_cast<int64_t>(bytes.size()));
        skip -= skipped;
        bytes.remove_prefix(static_cast<size_t>(skipped));
        if (static_cast<int64_t>(bytes.size()) > length - done) {
          return Lies(url, "more bytes than it has");
        }
        if (bytes.empty()) return absl::OkStatus();
        const absl::Status taken = sink(bytes);
        if (taken.ok()) done += static_cast<int64_t>(bytes.size());
        return taken;
      };
      absl::Status asked = Ask(url, headers, on_headers, body);
      progressed = done > before;
      // Whatever was to follow, all that was asked for is here.
      if (done == length && absl::IsUnavailable(asked)) return absl::OkStatus();
      if (asked.ok() && done < length) {
        asked = status::Error(absl::StatusCode::kUnavailable, "HTTP_TORN",
                              absl::StrCat("'", url.Shown(), "' ended early"));
      }
      return asked;
    });
  }

  absl::Status CheckUnchanged(const LoadPlan::File& planned) const override {
    CAPSTAN_ASSIGN_OR_RETURN(const HttpUrl url, ParseHttpUrl(planned.url()));
    CAPSTAN_ASSIGN_OR_RETURN(const LoadPlan::File now, Probe(url));
    const bool same = planned.validator() == kDigest || planned.validator() == kEmpty ||
                      now.validator() == planned.validator();
    return same && now.size_bytes() == planned.size_bytes() ? absl::OkStatus() : SourceChanged(url);
  }

 private:
  using OnHeaders = absl::FunctionRef<absl::StatusOr<bool>(const HttpAnswer&)>;
  using OnBody = absl::FunctionRef<absl::Status(absl::string_view)>;

  static absl::Status Lies(const HttpUrl& url, absl::string_view what) {
    return NamedError(absl::StatusCode::kDataLoss, "LYING_ANSWER", url,
                      absl::StrCat("was answered with ", what));
  }

  static absl::optional<ContentRange> Range(const HttpAnswer& answer) {
    const auto found = answer.headers.find("content-range");
    if (found == answer.headers.end()) return absl::nullopt;
    return ParseContentRange(found->second);
  }

  absl::Status CheckSame(const HttpUrl& url, const LoadPlan::File& planned,
                         const HttpAnswer& answer) const {
    if (Encoded(answer.headers)) return SourceEncoded(url);
    if (planned.validator() == kDigest) return absl::OkStatus();
    return ValidatorFromHeaders(answer.headers) == planned.validator() ? absl::OkStatus()
                                                                       : SourceChanged(url);
  }

  static absl::Status SourceEncoded(const HttpUrl& url) {
    return NamedError(absl::StatusCode::kFailedPrecondition, "SOURCE_ENCODED", url,
                      "is sent encoded, so that its ranges are not those of the object");
  }

  // OK for 200 and 206; redirects are Ask's.
  absl::Status CheckStatus(const HttpUrl& url, const HttpAnswer& answer,
                           absl::optional<absl::Duration>& retry_after) const {
    switch (ClassOf(answer.status)) {
      case HttpClass::kOk:
        return absl::OkStatus();
      case HttpClass::kAbsent:
        return NotFound(url);
      case HttpClass::kChanged:
        return SourceChanged(url);
      case HttpClass::kRetry: {
        const auto header = answer.headers.find("retry-after");
        if (header != answer.headers.end()) {
          // Its own clock is the one that a date of the server is compared with.
          const auto date = answer.headers.find("date");
          absl::Time now = absl::InfiniteFuture();
          if (date != answer.headers.end()) {
            absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", date->second, &now, nullptr);
          }
          retry_after = ParseRetryAfter(header->second, now);
        }
        return NamedError(absl::StatusCode::kUnavailable, absl::StrCat("HTTP_", answer.status), url,
                          absl::StrCat("was answered with status ", answer.status));
      }
      default:
        return NamedError(absl::StatusCode::kFailedPrecondition,
                          absl::StrCat("HTTP_", answer.status), url,
                          absl::StrCat("was answered with status ", answer.status));
    }
  }

  // One request, through its redirects.
  absl::Status Ask(HttpUrl url, const HttpHeaders& headers, OnHeaders on_headers,
                   OnBody body) const {
    for (int hops = 0;; ++hops) {
      absl::optional<HttpUrl> next;
      const auto check = [&](const HttpAnswer& answer) -> absl::StatusOr<bool> {
        if (ClassOf(answer.status) != HttpClass::kRedirect) return on_headers(answer);
        const auto location = answer.headers.find("location");
        if (location == answer.headers.end()) return Lies(url, "a redirect to nowhere");
        CAPSTAN_ASSIGN_OR_RETURN(next, ResolveHttpUrl(url, location->second));
        if (url.scheme == "https" && next->scheme != "https") {
          return NamedError(absl::StatusCode::kPermissionDenied, "SOURCE_NOT_ALLOWED", url,
                            "redirects from https to http");
        }
        CAPSTAN_RETURN_IF_ERROR(CheckAllowed(*next, *options_));
        return false;
      };
      CAPSTAN_RETURN_IF_ERROR(client_.Get(url, headers, check, body).status());
      if (!next.has_value()) return absl::OkStatus();
      if (hops == options_->max_redirects) {
        return NamedError(absl::StatusCode::kFailedPrecondition, "TOO_MANY_REDIRECTS", url,
                          "redirects once more");
      }
      url = *std::move(next);
    }
  }

  // Runs `attempt(retry_after, progressed)` until it is OK, its error is final, or the attempts or
  // the budget are used up.
  template <typename Attempt>
  absl::Status WithRetries(const HttpUrl& url, Attempt attempt) const {
    int failed = 0;
    while (true) {
      absl::optional<absl::Duration> retry_after;
      bool progressed = false;
      const absl::Status asked = attempt(retry_after, progressed);
      if (*stop_) return absl::CancelledError("stopped");
      if (asked.ok()) {
        absl::MutexLock lock(&mutex_);
        budget_ = std::min<double>(budget_ + 0.1, options_->retry_budget);
        return asked;
      }
      const std::string reason = status::Reason(asked);
      if (!absl::IsUnavailable(asked) || !absl::StartsWith(reason, "HTTP_")) return asked;
      failed = progressed ? 1 : failed + 1;
      absl::Duration pause;
      {
        absl::MutexLock lock(&mutex_);
        budget_ -= 1;
        if (failed >= options_->attempts || budget_ < 0) {
          return NamedError(
              absl::StatusCode::kUnavailable, "RETRIES_EXHAUSTED", url,
              absl::StrCat("could not be read after ", failed,
                           budget_ < 0 ? " attempts, nor others before it: " : " attempts: ",
                           asked.message()));
        }
        pause = std::min(options_->last_pause,
                         options_->first_pause * (int64_t{1} << std::min(failed - 1, 20)));
        pause = random_.Between(pause / 2, pause);
      }
      if (retry_after.has_value()) {
        if (*retry_after > options_->longest_retry_after) {
          return NamedError(
              absl::StatusCode::kUnavailable, "RETRIES_EXHAUSTED", url,
              absl::StrCat("is not to be asked for ", absl::FormatDuration(*retry_after), ": ",
                           asked.message()));
        }
        pause = std::max(pause, *retry_after);
      }
      pause_(pause);
      if (*stop_) return absl::CancelledError("stopped");
    }
  }

  // Probes some at once, in their order; the first of them that fails ends it, and is the error.
  absl::StatusOr<std::vector<LoadPlan::File>> ProbeAll(
      const std::vector<IndexEntry>& entries) const {
    std::vector<LoadPlan::File> files(entries.size());
    std::vector<absl::Status> failed(entries.size());
    std::atomic<size_t> next = 0;
    std::atomic<bool> ended = false;
    const auto work = [&] {
      while (!ended) {
        const size_t index = next++;
        if (index >= entries.size()) return;
        absl::StatusOr<LoadPlan::File> file = Probe(entries[index].url);
        if (file.ok()) {
          files[index] = *std::move(file);
        } else {
          failed[index] = file.status();
          ended = true;
        }
      }
    };
    std::vector<std::thread> others;
    const size_t at_once =
        std::min(entries.size(), static_cast<size_t>(std::max(1, options_->probes)));
    for (size_t i = 1; i < at_once; ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    for (const absl::Status& status : failed) CAPSTAN_RETURN_IF_ERROR(status);
    return files;
  }

  absl::StatusOr<LoadPlan::File> Probe(const HttpUrl& url) const {
    LoadPlan::File file;
    const auto no_body = [](absl::string_view) { return absl::OkStatus(); };
    const absl::Status probed =
        WithRetries(url, [&](absl::optional<absl::Duration>& retry_after, bool&) {
          const auto on_headers = [&](const HttpAnswer& answer) -> absl::StatusOr<bool> {
            const auto range = Range(answer);
            // An empty object has no first byte.
            const bool empty = answer.status == 416 && range.has_value() && range->total == 0;
            if (!empty) CAPSTAN_RETURN_IF_ERROR(CheckStatus(url, answer, retry_after));
            if (Encoded(answer.headers)) return SourceEncoded(url);
            file.set_url(url.ToString());
            file.set_validator(ValidatorFromHeaders(answer.headers));
            file.set_sha256(Sha256FromHeaders(answer.headers));
            if (answer.status == 206) {
              if (!range.has_value() || range->first != 0) return Lies(url, "a range that is none");
              file.set_size_bytes(range->total);
            } else if (!empty) {
              const absl::optional<int64_t> size = ContentLength(answer.headers);
              if (!size.has_value()) {
                return NamedError(absl::StatusCode::kFailedPrecondition, "SIZE_UNKNOWN", url,
                                  "is sent without a size");
              }
              file.set_size_bytes(*size);
              file.set_whole(true);
            }
            return false;
          };
          return Ask(url, {{"Range", "bytes=0-0"}}, on_headers, no_body);
        });
    CAPSTAN_RETURN_IF_ERROR(probed);
    return file;
  }

  absl::StatusOr<std::string> ReadIndex() const {
    std::string text;
    const absl::Status read =
        WithRetries(url_, [&](absl::optional<absl::Duration>& retry_after, bool&) {
          text.clear();
          const auto on_headers = [&](const HttpAnswer& answer) -> absl::StatusOr<bool> {
            CAPSTAN_RETURN_IF_ERROR(CheckStatus(url_, answer, retry_after));
            if (Encoded(answer.headers)) return SourceEncoded(url_);
            return true;
          };
          const auto body = [&](absl::string_view bytes) {
            if (text.size() + bytes.size() > kMaxIndexBytes) {
              return NamedError(absl::StatusCode::kInvalidArgument, "INVALID_INDEX", url_,
                                "is an index of more than 256 MiB");
            }
            text.append(bytes.data(), bytes.size());
            return absl::OkStatus();
          };
          return Ask(url_, {}, on_headers, body);
        });
    CAPSTAN_RETURN_IF_ERROR(read);
    return text;
  }

  // What is to be loaded, by path and URL.
  absl::StatusOr<std::vector<IndexEntry>> Entries(const std::vector<std::string>& objects) const {
    for (const std::string& object : objects) CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(object));
    std::vector<IndexEntry> entries;
    if (IsIndex(url_)) {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadIndex());
      CAPSTAN_ASSIGN_OR_RETURN(std::vector<IndexEntry> listed, ParseIndex(url_, text));
      if (objects.empty()) {
        if (listed.empty()) return NotFound(url_);
        return listed;
      }
      std::set<std::string> wanted(objects.begin(), objects.end());
      for (IndexEntry& entry : listed) {
        if (wanted.erase(entry.path) != 0) entries.push_back(std::move(entry));
      }
      if (!wanted.empty()) return NotFound(ObjectUrl(url_, *wanted.begin()));
      return entries;
    }
    if (absl::EndsWith(url_.path, "/")) {
      if (objects.empty()) {
        return status::Error(absl::StatusCode::kInvalidArgument, "OBJECTS_NEEDED",
                             absl::StrCat("'", url_.Shown(),
                                          "' is a folder of a web server, which "
                                          "can't be listed: name the objects, or an index"));
      }
      for (const std::string& object : objects) {
        entries.push_back({object, ObjectUrl(url_, object), absl::nullopt, ""});
      }
      return entries;
    }
    if (!objects.empty()) {
      return status::Error(absl::StatusCode::kInvalidArgument, "OBJECTS_NEEDED",
                           absl::StrCat("'", url_.Shown(), "' is one object; it holds no others"));
    }
    return ParseIndex(url_, url_.ToString());
  }

  const HttpUrl url_;
  const HttpOptions* const options_;
  const std::atomic<bool>* const stop_;
  const std::function<void(absl::Duration)> pause_;
  mutable HttpClient client_;
  mutable absl::Mutex mutex_;
  mutable Random random_ ABSL_GUARDED_BY(mutex_);
  // Retries that are left.
  mutable double budget_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenHttpSource(
    const std::string& uri, const HttpOptions* options, const std::atomic<bool>* stop,
    std::function<void(absl::Duration)> pause, uint64_t seed) {
  CAPSTAN_ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(uri));
  CAPSTAN_RETURN_IF_ERROR(CheckAllowed(url, *options));
  return std::unique_ptr<DataSource>(
      std::make_unique<HttpSource>(std::move(url), options, stop, std::move(pause), seed));
}

}  // namespace capstan::data_loader
