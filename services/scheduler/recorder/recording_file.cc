#include "services/scheduler/recorder/recording_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/segment_log/frame.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::scheduler {
namespace {

using segment_log::Frame;
using segment_log::FrameKind;

// What looks alike lies seconds apart: each Task and Job comes again and again.
constexpr int kWindowLog = 21;
constexpr int kLevel = 3;
constexpr size_t kLongestFrame = segment_log::kFramePrefix + 1 + segment_log::kMaxFramePayload;
constexpr size_t kReadPiece = 256 << 10;

absl::Status NotReadable(absl::string_view why) {
  return status::Error(absl::StatusCode::kInvalidArgument, kReasonNotReadable, why);
}

}  // namespace

void RecordingWriter::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void RecordingReader::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

RecordingWriter::RecordingWriter(UniqueFd fd, std::string path)
    : fd_(std::move(fd)), path_(std::move(path)), zstd_(ZSTD_createCCtx()) {
  ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_windowLog, kWindowLog);
}

RecordingWriter::~RecordingWriter() = default;

absl::StatusOr<std::unique_ptr<RecordingWriter>> RecordingWriter::Create(
    const std::string& path, const recording::RecordingHeader& header) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "making", path);
  std::unique_ptr<RecordingWriter> writer(new RecordingWriter(std::move(fd), path));
  std::string frame;
  segment_log::AppendFrame(FrameKind::kHeader, header.SerializeAsString(), &frame);
  CAPSTAN_RETURN_IF_ERROR(writer->WriteFrame(frame));
  return writer;
}

absl::Status RecordingWriter::WriteFrame(absl::string_view frame) {
  CAPSTAN_RETURN_IF_ERROR(WriteAll(fd_.get(), frame, path_));
  bytes_ += static_cast<int64_t>(frame.size());
  return absl::OkStatus();
}

absl::Status RecordingWriter::Append(absl::string_view block) {
  // Twice, so that a flush never wants a second call.
  compressed_.resize(2 * ZSTD_compressBound(block.size()));
  ZSTD_inBuffer in = {block.data(), block.size(), 0};
  ZSTD_outBuffer out = {compressed_.data(), compressed_.size(), 0};
  const size_t left = ZSTD_compressStream2(zstd_.get(), &out, &in, ZSTD_e_flush);
  if (ZSTD_isError(left) != 0 || left != 0 || out.pos > segment_log::kMaxFramePayload) {
    return absl::InternalError(absl::StrCat("a block of ", block.size(), " bytes for ", path_,
                                            " could not be compressed"));
  }
  std::string frame;
  segment_log::AppendFrame(FrameKind::kRecord, absl::string_view(compressed_.data(), out.pos),
                           &frame);
  return WriteFrame(frame);
}

RecordingReader::RecordingReader(Source source)
    : source_(std::move(source)), zstd_(ZSTD_createDCtx()) {
  ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, kWindowLog);
}

RecordingReader::~RecordingReader() = default;

absl::StatusOr<std::unique_ptr<RecordingReader>> RecordingReader::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return NotReadable(ErrnoStatus(errno, "opening", path).message());
  auto reader = From([fd = std::move(fd), path](char* to, size_t size) -> absl::StatusOr<size_t> {
    while (true) {
      const ssize_t got = read(fd.get(), to, size);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return ErrnoStatus(errno, "reading", path);
    }
  });
  if (!reader.ok()) return NotReadable(absl::StrCat(path, ": ", reader.status().message()));
  return reader;
}

absl::StatusOr<std::unique_ptr<RecordingReader>> RecordingReader::From(Source source) {
  std::unique_ptr<RecordingReader> reader(new RecordingReader(std::move(source)));
  CAPSTAN_RETURN_IF_ERROR(reader->Fill());
  const Frame frame = segment_log::ParseFrame(reader->buffer_);
  if (frame.outcome != Frame::Outcome::kFrame || frame.kind != FrameKind::kHeader ||
      !reader->header_.ParseFromArray(frame.payload.data(),
                                      static_cast<int>(frame.payload.size()))) {
    return NotReadable("this is no recording of a scheduler, or was cut off in its first bytes");
  }
  if (reader->header_.format() != kRecordingFormat) {
    return NotReadable(absl::StrCat("this is a recording of format ", reader->header_.format(),
                                    ", and this program reads format ", kRecordingFormat,
                                    "; replay it with the program that made it"));
  }
  reader->at_ = frame.bytes;
  return reader;
}

absl::Status RecordingReader::Fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  while (!drained_ && buffer_.size() < kLongestFrame) {
    const size_t had = buffer_.size();
    buffer_.resize(had + kReadPiece);
    const absl::StatusOr<size_t> got = source_(buffer_.data() + had, kReadPiece);
    buffer_.resize(had + (got.ok() ? *got : 0));
    CAPSTAN_RETURN_IF_ERROR(got.status());
    drained_ = *got == 0;
  }
  return absl::OkStatus();
}

bool RecordingReader::End(absl::string_view why, bool damaged) {
  over_ = true;
  damaged_ = damaged;
  end_ = std::string(why);
  return false;
}

bool RecordingReader::Next(recording::Block* block) {
  block->Clear();
  if (over_) return false;
  Frame frame = segment_log::ParseFrame(absl::string_view(buffer_).substr(at_));
  if (frame.outcome == Frame::Outcome::kTruncated && !drained_) {
    const absl::Status filled = Fill();
    if (!filled.ok()) return End(filled.message(), /*damaged=*/true);
    frame = segment_log::ParseFrame(buffer_);
  }
  if (frame.outcome == Frame::Outcome::kTruncated) {
    return End("it was cut off: the scheduler was killed, or still writes it", /*damaged=*/false);
  }
  if (frame.outcome != Frame::Outcome::kFrame || frame.kind != FrameKind::kRecord) {
    return End("what comes next is damaged", /*damaged=*/true);
  }
  plain_.resize(kMaxBlockBytes + 1);
  ZSTD_inBuffer in = {frame.payload.data(), frame.payload.size(), 0};
  ZSTD_outBuffer out = {plain_.data(), plain_.size(), 0};
  while (in.pos < in.size && out.pos < out.size) {
    const size_t before = in.pos + out.pos;
    const size_t left = ZSTD_decompressStream(zstd_.get(), &out, &in);
    if (ZSTD_isError(left) != 0 || in.pos + out.pos == before) {
      return End("what comes next does not decompress", /*damaged=*/true);
    }
  }
  // The input may be used up while there is still something to come out.
  while (out.pos < out.size) {
    const size_t before = out.pos;
    const size_t left = ZSTD_decompressStream(zstd_.get(), &out, &in);
    if (ZSTD_isError(left) != 0) return End("what comes next does not decompress", true);
    if (out.pos == before) break;
  }
  if (out.pos > kMaxBlockBytes || in.pos < in.size ||
      !block->ParseFromArray(plain_.data(), static_cast<int>(out.pos))) {
    return End("what comes next is no block of a recording", /*damaged=*/true);
  }
  at_ += frame.bytes;
  if (!block->ended().empty()) End(block->ended(), /*damaged=*/false);
  return true;
}

}  // namespace capstan::scheduler
