#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text/download_hint.h"

namespace lockstep {

/// @throws UsageError  that names the flag, if --tokenizer names a folder that does not exist
inline void require_tokenizer_folder(const std::string& folder) {
  if (std::filesystem::is_directory(folder)) return;
  throw UsageError(
      "there is no folder " + folder, "--tokenizer",
      download_hint(folder) +
          "name the folder of a Hugging Face model; lockstep tokenizer train --output FOLDER TEXTS makes one");
}

}  // namespace lockstep
