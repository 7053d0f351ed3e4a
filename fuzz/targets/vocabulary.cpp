#include "lockstep/data/text/vocabulary.h"

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"

namespace lockstep::fuzz {

void run_vocabulary(std::string_view bytes) {
  const Vocabulary vocabulary = Vocabulary::from_txt(file_with("vocab.txt", bytes));
  LOCKSTEP_HOLDS(vocabulary.size() <= bytes.size() + 1);
}

}  // namespace lockstep::fuzz
