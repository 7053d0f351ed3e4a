#include "lockstep/safetensors/weight_index.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"

namespace lockstep::fuzz {

void run_weight_index(std::string_view bytes) {
  for (const auto& item : parse_weight_index(std::string(bytes), "model.safetensors.index.json")) {
    LOCKSTEP_HOLDS(!item.second.empty() && item.second.find('/') == std::string::npos && item.second != "..");
  }
}

}  // namespace lockstep::fuzz
