#include "tools/lockstep/chaos/written_weights.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/data/files/sha256.h"

namespace lockstep {
namespace {

std::string digest_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 digest;
  std::array<char, 1 << 16> block{};
  while (file) {
    file.read(block.data(), block.size());
    digest.update(std::string_view(block.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (!file.eof()) throw Error("cannot read it", path.string(), "see that nothing else changes the folder");
  return digest.hex();
}

}  // namespace

std::map<std::string, std::string> written_weights(const std::string& folder) {
  std::map<std::string, std::string> digests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_shared = name.rfind("model", 0) == 0 || name.rfind("optimizer", 0) == 0;
    if (!is_shared || entry.path().extension() != ".safetensors") continue;
    digests[std::filesystem::relative(entry.path(), folder).string()] = digest_of(entry.path());
  }
  if (digests.count("model.safetensors") == 0) {
    throw Error("the training wrote no model.safetensors", folder, "leave --save-strategy and --do-train as they are");
  }
  return digests;
}

}  // namespace lockstep
