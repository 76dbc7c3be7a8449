#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_ALERT_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_ALERT_H_

namespace capstan::kube {

// Whether the server says by `alert` (RFC 8446, section 6) that it does not take our certificate,
// or misses one. TLS 1.3 tells it after the handshake.
constexpr bool RefusesCertificate(int alert) {
  switch (alert) {
    case 42:   // bad_certificate
    case 43:   // unsupported_certificate
    case 44:   // certificate_revoked
    case 45:   // certificate_expired
    case 46:   // certificate_unknown
    case 48:   // unknown_ca
    case 49:   // access_denied
    case 116:  // certificate_required
      return true;
    default:
      return false;
  }
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_ALERT_H_
