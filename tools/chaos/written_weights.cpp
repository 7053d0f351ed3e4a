#include "tools/chaos/written_weights.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"

namespace lockstep {

std::map<std::string, std::string> written_weights(const std::string& folder) {
  std::map<std::string, std::string> digests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_shared = name.rfind("model", 0) == 0 || name.rfind("optimizer", 0) == 0;
    if (!is_shared || entry.path().extension() != ".safetensors") continue;
    digests[std::filesystem::relative(entry.path(), folder).string()] =
        sha256_of_file(entry.path().string(), "check that nothing else changes the folder");
  }
  if (digests.count("model.safetensors") == 0) {
    throw Error("the training wrote no model.safetensors", folder, "leave --save-strategy and --do-train as they are");
  }
  return digests;
}

}  // namespace lockstep
