#include "libs/golden/golden.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace capstan::golden {
namespace {

namespace fs = ::std::filesystem;

constexpr size_t kBytesOfALine = 32;
constexpr char kIndent[] = "  ";

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string FromHex(absl::string_view text) {
  std::string digits;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    for (const char c : line.substr(0, line.find('#'))) {
      if (!absl::ascii_isspace(static_cast<unsigned char>(c))) digits.push_back(c);
    }
  }
  const bool good = digits.size() % 2 == 0 && std::all_of(digits.begin(), digits.end(), [](char c) {
                      return absl::ascii_isxdigit(static_cast<unsigned char>(c));
                    });
  EXPECT_TRUE(good) << "not hex: " << text;
  return good ? absl::HexStringToBytes(digits) : "";
}

}  // namespace

Format::Format(std::string package, std::string name, std::string ending)
    : package_(std::move(package)), name_(std::move(name)), ending_(std::move(ending)) {
  // What is dumped has the same modes whoever runs the test.
  umask(022);
  std::map<int, std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(package_ + "/testdata/stored", error)) {
    // <name>.v<N>.<ending>
    const std::string file = entry.path().filename();
    const std::vector<std::string> words = absl::StrSplit(file, '.');
    int version = 0;
    if (words.size() != 3 || words[0] != name_ || words[2] != ending_ || words[1].front() != 'v' ||
        !absl::SimpleAtoi(words[1].substr(1), &version)) {
      continue;
    }
    paths[version] = entry.path().string();
  }
  EXPECT_FALSE(paths.empty()) << "no version of `" << name_ << "` in " << package_
                              << "/testdata/stored, which the test needs as data";
  int expected = 1;
  for (const auto& [version, path] : paths) {
    EXPECT_EQ(version, expected++) << "a version of `" << name_ << "` is missing. " << kMustRead;
    const std::string content = ReadFile(path);
    versions_.push_back({path, ending_ == "hex" ? FromHex(content) : content});
  }
}

std::string Format::NameOfNext() const {
  return absl::StrCat(name_, ".v", versions_.size() + 1, ".", ending_);
}

std::string Format::Encoded(absl::string_view bytes) const {
  return ending_ == "hex" ? ToHexLines(bytes) : std::string(bytes);
}

void Format::KeepExample(absl::string_view bytes) const {
  const char* outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  if (outputs == nullptr) return;
  std::ofstream(absl::StrCat(outputs, "/", NameOfNext()), std::ios::binary) << Encoded(bytes);
}

void Format::ExpectWritten(absl::string_view bytes) const {
  if (!versions_.empty() && versions_.back().bytes == bytes) return;
  KeepExample(bytes);
  if (versions_.empty()) return;  // The constructor has said so.
  EXPECT_EQ(Encoded(bytes), Encoded(versions_.back().bytes))
      << "What is written for `" << name_ << "` is not what " << versions_.back().path
      << " says: the version that people have may not be able to read it, and has to, for as long "
         "as one can go back to it (./dev upgrade). If this is meant, leave that file as it is and "
         "readable, and add what is written now, which is among the test's outputs, as "
      << package_ << "/testdata/stored/" << NameOfNext()
      << ", with its row in docs/stored_formats.md.";
}

std::string ToHexLines(absl::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += kBytesOfALine) {
    absl::StrAppend(&text, absl::BytesToHexString(bytes.substr(at, kBytesOfALine)), "\n");
  }
  return text;
}

std::string DumpFolder(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::string dump;
  for (const fs::path& path : paths) {
    struct stat st{};
    EXPECT_EQ(lstat(path.c_str(), &st), 0) << path;
    const char* kind = S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "folder" : "other";
    absl::StrAppendFormat(&dump, "%s %04o %s\n", kind, st.st_mode & 07777,
                          path.lexically_relative(folder).string());
    if (!S_ISREG(st.st_mode)) continue;
    const std::string lines = ToHexLines(ReadFile(path));
    for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&dump, kIndent, line, "\n");
    }
  }
  return dump;
}

void RestoreFolder(absl::string_view dump, const std::string& folder) {
  // Modes last, so that what none may write can be written.
  std::vector<std::pair<std::string, mode_t>> modes;
  std::ofstream file;
  for (absl::string_view line : absl::StrSplit(dump, '\n', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&line, kIndent)) {
      file << FromHex(line);
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    ASSERT_EQ(words.size(), 3u) << line;
    const std::string path = absl::StrCat(folder, "/", words[2]);
    file.close();
    if (words[0] == "folder") {
      ASSERT_EQ(mkdir(path.c_str(), 0700), 0) << path;
    } else {
      ASSERT_EQ(words[0], "file") << line;
      file.open(path, std::ios::binary);
      ASSERT_TRUE(file.is_open()) << path;
    }
    modes.emplace_back(path, static_cast<mode_t>(std::stoul(words[1], nullptr, 8)));
  }
  file.close();
  for (auto one = modes.rbegin(); one != modes.rend(); ++one) {
    ASSERT_EQ(chmod(one->first.c_str(), one->second), 0) << one->first;
  }
}

}  // namespace capstan::golden
