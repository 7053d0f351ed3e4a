#pragma once

#include <string>

namespace lockstep {

/// The path of Accelerate's default configuration: accelerate/default_config.yaml in $HF_HOME, else in
/// $XDG_CACHE_HOME/huggingface, else in ~/.cache/huggingface. Empty if none of the variables is set.
std::string accelerate_config_path();

}  // namespace lockstep
