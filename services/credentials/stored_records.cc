#include "services/credentials/stored_records.h"

#include "proto/capstan/credentials/v1/record.pb.h"

namespace capstan::credentials {

store::ServiceRecords StoredRecords() {
  store::ServiceRecords records;
  records.service = "credentials";
  records.kinds = {
      {"trust_domain", &v1::TrustDomainRecord::default_instance()},
      {"policy_head", &v1::PolicyHeadRecord::default_instance()},
      {"project/", &v1::ProjectRecord::default_instance()},
      {"role_binding/", &v1::RoleBindingRecord::default_instance()},
      {"deny/", &v1::DenyRecord::default_instance()},
      {"join_token/", &v1::JoinTokenRecord::default_instance()},
      {"issued/", &v1::IssuedRecord::default_instance()},
      {"person/", &v1::PersonRecord::default_instance()},
      {"jwt_keys_head", &v1::JwtKeysHeadRecord::default_instance()},
      {"jwt_key/", &v1::JwtKeyRecord::default_instance()},
      {"request/", &v1::RequestRecord::default_instance()},
      {"audit_head", &v1::AuditHeadRecord::default_instance()},
      {"audit/", /*prototype=*/nullptr},
      {"turn", /*prototype=*/nullptr},
  };
  return records;
}

}  // namespace capstan::credentials
