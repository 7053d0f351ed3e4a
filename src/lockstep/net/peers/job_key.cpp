#include "lockstep/net/peers/job_key.h"

#include "lockstep/net/hmac.h"

namespace lockstep {

std::string job_key_of(const std::string& secret) {
  return hmac_sha256("lockstep job secret:" + secret, {"lockstep peers: key of the job"});
}

std::string job_key(const Store& store) {
  const auto* const keyed = dynamic_cast<const KeyedStore*>(&store);
  return keyed == nullptr ? job_key_of("") : keyed->job_key();
}

}  // namespace lockstep
