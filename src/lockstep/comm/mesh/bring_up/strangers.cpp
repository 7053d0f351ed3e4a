#include "lockstep/comm/mesh/bring_up/strangers.h"

#include <mutex>
#include <set>

#include "lockstep/base/log.h"

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
  if (members.rank != 0 || members.on_one_network() || !is_first_group_over(engine)) return;
  log_warning(
      "engine {} asks nobody who connects for the job's secret: whoever reaches {} while a group forms can end the "
      "job, "
      "or worse. Engine tcp does ask, and is what a group of CPU tensors without a named engine uses between hosts",
      engine, ports);
}

}  // namespace lockstep
