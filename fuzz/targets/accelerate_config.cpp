#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "tools/accelerate/accelerate_config.h"
#include "tools/accelerate/accelerate_fsdp.h"

namespace lockstep::fuzz {

void run_accelerate_config(std::string_view bytes) {
  for (const bool as_json : {false, true}) {
    const char* name = as_json ? "config.json" : "config.yaml";
    const AccelerateConfig config = read_accelerate_config(file_with(name, bytes));
    const std::string written = accelerate_config_text(config, as_json);
    const AccelerateConfig again = read_accelerate_config(file_with(name, written));
    LOCKSTEP_HOLDS(accelerate_config_text(again, as_json) == written);
  }
  const AccelerateConfig config = read_accelerate_config(file_with("config.yaml", bytes));
  fsdp_environment(config, config.num_machines, config.num_processes, "config.yaml");
}

}  // namespace lockstep::fuzz
