#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/detail/sentence/sentence_layout.h"

namespace lockstep {

/// What modules.json and the files that it names say; of a folder without modules.json, the default layout.
/// @throws Error  naming file and field, if it asks for what SentenceEncoder does not do
SentenceLayout read_sentence_layout(const std::string& folder);

/// The files that read_sentence_layout and sentence-transformers read, by name.
std::map<std::string, std::string> sentence_layout_files(const SentenceLayout& layout, std::int64_t hidden_size);

}  // namespace lockstep
