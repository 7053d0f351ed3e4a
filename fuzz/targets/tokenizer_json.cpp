#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/text/files/tokenizer_document.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::fuzz {

void run_tokenizer_json(std::string_view bytes) {
  const Tokenizer tokenizer = text::make_tokenizer(text::read_tokenizer_json(file_with("tokenizer.json", bytes)));
  const Encoding encoding = tokenizer.encode("Hello, w\xC3\xB6rld! 123 [MASK]\n");
  for (const TokenId id : encoding.ids) LOCKSTEP_HOLDS(id >= 0);
  LOCKSTEP_HOLDS(text::is_valid_utf8(tokenizer.decode(encoding.ids)));
}

}  // namespace lockstep::fuzz
