#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The flag of `names` that `typed` ("--batch-size", "-np") means in the field's other programs; empty if there is
/// none.
/// @param typed, names  with hyphens
std::string flag_synonym(const std::string& typed, const std::vector<std::string>& names);

/// What to do instead of a flag of another program that has no counterpart in the command with the flags `names`; empty
/// if it is not known.
std::string flag_answer(const std::string& typed, const std::vector<std::string>& names);

/// The subcommand of `names` that another program's command means, as "finetune" and "torchrun"; empty if there is
/// none.
std::string subcommand_synonym(const std::string& typed, const std::vector<std::string>& names);

/// What a refusal of the flag `typed` suggests, to follow its name: a synonym, else an answer, else the nearest name.
std::string suggest_flag(const std::string& typed, const std::vector<std::string>& names);

}  // namespace lockstep
