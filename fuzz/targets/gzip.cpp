#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/files/gzip.h"

namespace lockstep::fuzz {

void run_gzip(std::string_view bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  LOCKSTEP_HOLDS(gunzip(bytes, "file.gz", kMost).size() <= kMost);
}

}  // namespace lockstep::fuzz
