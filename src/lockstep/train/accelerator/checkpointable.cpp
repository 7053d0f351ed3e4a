#include "lockstep/detail/train/checkpointable.h"

#include "lockstep/checkpoint/schedule_state.h"

namespace lockstep {

Checkpointable checkpointable(ReduceLROnPlateau& scheduler) {
  return {[&scheduler] { return schedule_json(scheduler.state()); },
          [&scheduler](const std::string& bytes, const std::string& path) {
            scheduler.load_state(parse_plateau(bytes, path));
          }};
}

}  // namespace lockstep
