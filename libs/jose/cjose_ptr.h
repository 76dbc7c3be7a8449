// Owners for cjose's objects.
#ifndef CAPSTAN_LIBS_JOSE_CJOSE_PTR_H_
#define CAPSTAN_LIBS_JOSE_CJOSE_PTR_H_

#include <cjose/header.h>
#include <cjose/jwk.h>
#include <cjose/jws.h>

#include <memory>

namespace capstan::jose {

template <auto kRelease>
struct CjoseRelease {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};

using HeaderPtr = std::unique_ptr<cjose_header_t, CjoseRelease<cjose_header_release>>;
using JwkPtr = std::unique_ptr<cjose_jwk_t, CjoseRelease<cjose_jwk_release>>;
using JwsPtr = std::unique_ptr<cjose_jws_t, CjoseRelease<cjose_jws_release>>;

}  // namespace capstan::jose

#endif  // CAPSTAN_LIBS_JOSE_CJOSE_PTR_H_
