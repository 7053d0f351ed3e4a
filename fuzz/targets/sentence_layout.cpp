#include <filesystem>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/sentence/sentence_folder.h"

namespace lockstep::fuzz {

// The first line is modules.json, the rest a file of its pooling.
void run_sentence_layout(std::string_view bytes) {
  const std::size_t line = bytes.find('\n');
  const std::filesystem::path modules = file_with("modules.json", bytes.substr(0, line));
  file_with("config.json", line == std::string_view::npos ? std::string_view() : bytes.substr(line + 1));
  const SentenceLayout layout = read_sentence_layout(modules.parent_path());
  LOCKSTEP_HOLDS(!layout.max_seq_length || *layout.max_seq_length > 0);
  LOCKSTEP_HOLDS(sentence_layout_files(layout, 8).count("modules.json") == 1);
}

}  // namespace lockstep::fuzz
