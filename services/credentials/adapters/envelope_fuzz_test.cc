// Sealed keys as a damaged or foreign store may hold them: nothing is opened but what was sealed,
// by the same keeper, for the same purpose.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/adapters/envelope.h"
#include "services/credentials/adapters/file_key_keeper.h"
#include "services/credentials/ports/fake_secret_source.h"

namespace {

using capstan::credentials::FakeSecretSource;
using capstan::credentials::FileKeyKeeper;
using capstan::credentials::OpenEnvelope;
using capstan::credentials::SealEnvelope;
using capstan::credentials::v1::SealedKey;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;

struct Keeper {
  Keeper() {
    // Read once.
    const capstan::fuzzing::FuzzFolder folder;
    keeper =
        FileKeyKeeper::Open(absl::StrCat(folder.path(), "/keeper.key"), /*create=*/true, &source)
            .value();
  }

  FakeSecretSource source{7};
  std::unique_ptr<FileKeyKeeper> keeper;
};

Keeper& TheKeeper() {
  static auto& keeper = *new Keeper;
  return keeper;
}

void ChangeByte(FuzzInput* input, std::string* bytes) {
  if (bytes->empty()) return;
  char& byte = (*bytes)[input->Byte() % bytes->size()];
  byte = static_cast<char>(byte ^ (1 + input->Below(255)));
}

void CheckChanged(FuzzInput* input) {
  Keeper& keeper = TheKeeper();
  const std::string secret(input->Bytes(input->Byte()));
  const std::string context(input->Bytes(input->Below(20)));
  const auto sealed = SealEnvelope(secret, context, keeper.keeper.get(), &keeper.source);
  Require(sealed.ok());
  const auto opened = OpenEnvelope(*sealed, context, keeper.keeper.get());
  Require(opened.ok() && *opened == secret);
  Require(!OpenEnvelope(*sealed, absl::StrCat(context, "x"), keeper.keeper.get()).ok());
  SealedKey changed = *sealed;
  switch (input->Below(6)) {
    case 0:
      ChangeByte(input, changed.mutable_ciphertext());
      break;
    case 1:
      ChangeByte(input, changed.mutable_nonce());
      break;
    case 2:
      ChangeByte(input, changed.mutable_wrapped_data_key());
      break;
    case 3:
      changed.mutable_ciphertext()->resize(input->Byte() % changed.ciphertext().size());
      break;
    case 4:
      changed.mutable_wrapped_data_key()->resize(input->Byte() % changed.wrapped_data_key().size());
      break;
    default:
      changed.set_keeper_key_id(input->Word({"file:", ""}));
  }
  Require(!OpenEnvelope(changed, context, keeper.keeper.get()).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  if (input.Flag()) {
    CheckChanged(&input);
    return 0;
  }
  auto sealed = capstan::fuzzing::MakeMessage<SealedKey>({"file:", ""}, &input);
  if (input.Flag()) sealed.set_keeper_key_id(TheKeeper().keeper->key_id());
  Require(!OpenEnvelope(sealed, input.Rest(), TheKeeper().keeper.get()).ok());
  return 0;
}
