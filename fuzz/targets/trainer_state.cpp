#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/detail/checkpoint/trainer_state.h"

namespace lockstep::fuzz {

void run_trainer_state(std::string_view bytes) {
  const TrainerState state = parse_trainer_state(std::string(bytes), "trainer_state.json");
  const std::string written = trainer_state_json(state);
  LOCKSTEP_HOLDS(trainer_state_json(parse_trainer_state(written, "trainer_state.json")) == written);
}

}  // namespace lockstep::fuzz
