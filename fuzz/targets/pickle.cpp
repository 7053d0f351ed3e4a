#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/models/pickled/pickle_machine.h"

namespace lockstep::fuzz {

void run_pickle(std::string_view bytes) {
  std::size_t end = 0;
  read_pickle(bytes, end, "pytorch_model.bin");
  LOCKSTEP_HOLDS(end > 0 && end <= bytes.size());
  LOCKSTEP_HOLDS(bytes[end - 1] == '.');  // the opcode that ends a pickle
}

}  // namespace lockstep::fuzz
