#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

using Words = std::vector<std::string>;

/// An option of srun or sbatch.
struct SlurmOption {
  std::string name;  ///< long, without hyphens
  std::optional<std::string> value;
};

/// The options before the program; `program` is set to the index of the first word that belongs to no option.
std::vector<SlurmOption> options_of(const Words& words, std::size_t* program);

/// "train" of "bin/train".
std::string file_name_of(const std::string& word);

}  // namespace lockstep
