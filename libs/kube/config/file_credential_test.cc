// If these fail, renewed credentials are not taken, or half-written ones are shown to the server.
#include "libs/kube/config/file_credential.h"

#include <fstream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/testing/key_pair.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube {
namespace {

absl::StatusOr<Credential> Get(CredentialSource* source) {
  absl::StatusOr<Credential> answer;
  absl::Notification done;
  source->Get([&](absl::StatusOr<Credential> credential) {
    answer = std::move(credential);
    done.Notify();
  });
  done.WaitForNotification();
  return answer;
}

class FileCredentialTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) { return folder_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::trunc) << text;
  }

  TemporaryFolder folder_;
  SimulatedClock clock_;
};

TEST_F(FileCredentialTest, ReadsTokenAgainAfterTenSecondsOrRejection) {
  GivenCredential given;
  given.token.path = Path("token");
  const auto source = MakeFileCredential(given, &clock_);
  EXPECT_EQ(status::Reason(Get(source.get()).status()), "FILE_NOT_FOUND");
  Write("token", " one\n");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Get(source.get())->bearer_token, "one");
  Write("token", "two");
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(Get(source.get())->bearer_token, "one");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Get(source.get())->bearer_token, "two");
  Write("token", "three");
  source->Rejected({"one", "", ""});
  EXPECT_EQ(Get(source.get())->bearer_token, "two");
  source->Rejected({"two", "", ""});
  EXPECT_EQ(Get(source.get())->bearer_token, "three");
  for (const char* bad : {"", "SECRET x"}) {
    Write("token", bad);
    clock_.Advance(absl::Seconds(10));
    EXPECT_EQ(Get(source.get())->bearer_token, "three");
    const auto read = ReadCredential(given);
    EXPECT_EQ(status::Reason(read.status()), "KUBE_BAD_TOKEN");
    EXPECT_FALSE(absl::StrContains(read.status().ToString(), "SECRET"));
  }
}

TEST_F(FileCredentialTest, KeepsTheOldPairUntilTheNewOneIsWhole) {
  const KeyPair old_pair = MakeKeyPair();
  const KeyPair new_pair = MakeKeyPair();
  GivenCredential given;
  given.certificate_chain_pem.path = Path("tls.crt");
  given.private_key_pem.path = Path("tls.key");
  Write("tls.crt", old_pair.certificate_pem);
  Write("tls.key", old_pair.key_pem);
  const auto source = MakeFileCredential(given, &clock_);
  const Credential expected{"", old_pair.certificate_pem, old_pair.key_pem};
  ASSERT_EQ(*Get(source.get()), expected);
  const std::string half = new_pair.certificate_pem.substr(0, 100);
  for (const std::string& certificate :
       {new_pair.certificate_pem, half, old_pair.certificate_pem + half, std::string()}) {
    Write("tls.crt", certificate);
    clock_.Advance(absl::Seconds(10));
    EXPECT_EQ(*Get(source.get()), expected);
  }
  Write("tls.key", new_pair.key_pem);
  Write("tls.crt", new_pair.certificate_pem + old_pair.certificate_pem);
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(Get(source.get())->private_key_pem, new_pair.key_pem);
}

TEST_F(FileCredentialTest, ReadsNothingThatBlocks) {
  GivenCredential given;
  given.token.path = folder_.path();
  EXPECT_EQ(status::Reason(ReadCredential(given).status()), "WRONG_FILE_TYPE");
  given.token.path = "/dev/zero";
  EXPECT_EQ(status::Reason(ReadCredential(given).status()), "WRONG_FILE_TYPE");
}

}  // namespace
}  // namespace capstan::kube
