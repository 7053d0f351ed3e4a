#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/text/files/tokenizer_document.h"

namespace lockstep::fuzz {

void run_merges(std::string_view bytes) {
  LOCKSTEP_HOLDS(text::read_merges(file_with("merges.txt", bytes)).size() <= bytes.size());
}

}  // namespace lockstep::fuzz
