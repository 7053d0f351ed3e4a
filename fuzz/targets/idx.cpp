#include <vector>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/images/idx_reader.h"

namespace lockstep::fuzz {

void run_idx(std::string_view bytes) {
  IdxReader reader(file_with("images-idx3-ubyte", bytes));
  std::size_t elements = 1;
  for (const std::int64_t size : reader.sizes()) elements *= static_cast<std::size_t>(size);
  LOCKSTEP_HOLDS(elements * idx_element_bytes(reader.type()) == reader.payload_bytes());
  std::vector<char> payload(reader.payload_bytes());
  reader.read_payload(payload.data());
}

}  // namespace lockstep::fuzz
