#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/error.h"
#include "lockstep/net/environment/init_method.h"
#include "lockstep/net/environment/slurm_environment.h"

namespace lockstep::fuzz {

void run_slurm_list(std::string_view bytes) {
  const std::string text(bytes);
  const auto refused = [](const auto& parse) {
    try {
      parse();
    } catch (const Error&) {  // each of the three reads the same bytes
    }
  };
  refused([&] { LOCKSTEP_HOLDS(!expand_host_list(text).empty()); });
  refused([&] { LOCKSTEP_HOLDS(!expand_task_counts(text).empty()); });
  refused([&] { InitMethod::parse(text); });
}

}  // namespace lockstep::fuzz
