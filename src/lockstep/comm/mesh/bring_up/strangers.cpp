#include "lockstep/comm/mesh/bring_up/strangers.h"

#include <mutex>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/net/sockets/encryption.h"

namespace lockstep {
namespace {

// Whether nobody asked before: a program may make many groups, and is warned of each engine once.
bool is_first_group_over(const std::string& engine) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  const std::lock_guard<std::mutex> lock(mutex);
  return seen.insert(engine).second;
}

}  // namespace

void warn_of_strangers(const Membership& members, const std::string& engine, const std::string& ports) {
  if (members.on_one_network()) return;
  if (encryption_is_demanded()) {
    throw Error("LOCKSTEP_ENCRYPT asks for encryption, but engine " + engine + " has none", members.where(),
                "use engine tcp, or hierarchical over it; or encrypt the network itself (WireGuard, IPsec) and leave "
                "LOCKSTEP_ENCRYPT out");
  }
  if (members.rank != 0 || !is_first_group_over(engine)) return;
  log_warning(
      "engine {} does not check the job's secret: anyone who can reach {} while a group forms can end the job, or "
      "worse. Engine tcp checks it; a group for CPU tensors uses it between hosts unless another engine is named",
      engine, ports);
}

}  // namespace lockstep
