#include "lockstep/parallel/update/copy_wishes.h"

#include <utility>

#include "lockstep/base/log.h"

namespace lockstep {

void CopyWishes::note_unused() {
  if (std::exchange(has_noted_, true) || communicator_.rank() != 0) return;
  log_info(
      "fuse: no bf16 copies are published, because no forward has asked for one: layers read them under autocast in "
      "bf16, LibTorch's own if a Bf16Forward is there");
}

}  // namespace lockstep
