#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/text_file.h"

namespace lockstep::fuzz {

void run_squad(std::string_view bytes) {
  TextFileOptions options;
  options.texts = {"question", "context"};
  const auto texts = read_squad_texts(file_with("squad.json", bytes), options, SquadRows::Questions);
  LOCKSTEP_HOLDS(texts->size() > 0);
  for (std::int64_t row = 0; row < texts->size(); ++row) {
    LOCKSTEP_HOLDS(texts->get(row).texts.size() == 2 && !texts->where(row).empty());
  }
}

}  // namespace lockstep::fuzz
