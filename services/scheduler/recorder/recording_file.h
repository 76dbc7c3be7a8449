#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_RECORDING_FILE_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_RECORDING_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"
#include "services/scheduler/recorder/recording.pb.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace capstan::scheduler {

namespace recording = ::capstan::scheduler::recordings::v1;

inline constexpr int kRecordingFormat = 1;
// Of a serialised Block.
inline constexpr size_t kMaxBlockBytes = 3 << 20;

// INVALID_ARGUMENT: it cannot be opened, or is no recording.
inline constexpr char kReasonNotReadable[] = "FILE_NOT_READABLE";

// Writes one recording, never fsynced. For one thread; calls block on the disk.
class RecordingWriter {
 public:
  // The file must not be there yet; it gets mode 0600.
  static absl::StatusOr<std::unique_ptr<RecordingWriter>> Create(
      const std::string& path, const recording::RecordingHeader& header);
  ~RecordingWriter();
  RecordingWriter(const RecordingWriter&) = delete;
  RecordingWriter& operator=(const RecordingWriter&) = delete;

  // A serialised Block, of at most kMaxBlockBytes. After it a reader sees all that was appended.
  // After an error the file is as if it had been cut off, and takes no more.
  absl::Status Append(absl::string_view block);
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  RecordingWriter(UniqueFd fd, std::string path);
  absl::Status WriteFrame(absl::string_view frame);

  const UniqueFd fd_;
  const std::string path_;
  std::unique_ptr<ZSTD_CCtx_s, Free> zstd_;
  std::string compressed_;
  int64_t bytes_ = 0;
};

// Reads a recording from any bytes, a Block at a time; memory is bounded by that. For one thread.
class RecordingReader {
 public:
  // Reads up to so many bytes; 0 at the end.
  using Source = absl::AnyInvocable<absl::StatusOr<size_t>(char* to, size_t size)>;

  // FILE_NOT_READABLE if there is no such file, or it does not begin as a recording of this format
  // does.
  static absl::StatusOr<std::unique_ptr<RecordingReader>> Open(const std::string& path);
  static absl::StatusOr<std::unique_ptr<RecordingReader>> From(Source source);
  ~RecordingReader();
  RecordingReader(const RecordingReader&) = delete;
  RecordingReader& operator=(const RecordingReader&) = delete;

  const recording::RecordingHeader& header() const { return header_; }
  // False at the end, of which `end` tells.
  bool Next(recording::Block* block);
  // In words why nothing comes after, once Next has returned false.
  const std::string& end() const { return end_; }
  // What is there after the last Block cannot be read; a file that was cut off is not damaged.
  bool damaged() const { return damaged_; }

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  explicit RecordingReader(Source source);
  // Fills the buffer as far as a frame can be long.
  absl::Status Fill();
  bool End(absl::string_view why, bool damaged);

  Source source_;
  recording::RecordingHeader header_;
  std::unique_ptr<ZSTD_DCtx_s, Free> zstd_;
  std::string buffer_;
  size_t at_ = 0;
  bool drained_ = false;
  std::string plain_;
  std::string end_;
  bool over_ = false;
  bool damaged_ = false;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_RECORDING_FILE_H_
