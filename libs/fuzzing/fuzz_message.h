// Messages that a peer who keeps to protobuf's encoding, and to nothing else, might send.
#ifndef CAPSTAN_LIBS_FUZZING_FUZZ_MESSAGE_H_
#define CAPSTAN_LIBS_FUZZING_FUZZ_MESSAGE_H_

#include <string>
#include <vector>

#include "google/protobuf/message.h"
#include "libs/fuzzing/fuzz_input.h"

namespace capstan::fuzzing {

// Adds fields of all kinds, nested ones too, as the input chooses. Strings are mostly `words`: what
// the code under test knows by name, so that messages fit each other now and then. Strings are
// UTF-8, as protobuf's parser grants; numbers, enums and bytes are anything. Bounded by the input.
void FillMessage(const std::vector<std::string>& words, FuzzInput* input,
                 google::protobuf::Message* message);

// A new message that is filled so.
template <typename Message>
Message MakeMessage(const std::vector<std::string>& words, FuzzInput* input) {
  Message message;
  FillMessage(words, input, &message);
  return message;
}

}  // namespace capstan::fuzzing

#endif  // CAPSTAN_LIBS_FUZZING_FUZZ_MESSAGE_H_
